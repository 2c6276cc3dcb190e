"""Where settings come from, and which of them hold.

The later stand over the earlier: the user's file, the project's file, the environment, the command line, the
editor. Of ``languages`` that is so for each language, and ``exclude`` adds up, so that no project can take
away what its user has excluded.

The project's file comes with the code, so others may have written it. It counts only where the client says
that the user trusts the folder, and can set only what ``settings.TABLE`` gives it.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lsp_server.setting_kinds import WrongValueError
from lsp_server.settings import TABLE, Settings
from model_setup import store
from model_setup.presets import PRESETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PROJECT_FILE = store.PROJECT_SETTINGS
_ENVIRONMENT = "DRAFTLINE_"
_NO_SETTINGS = {"DRAFTLINE_HOME", "DRAFTLINE_API_KEY"}
_MOST_BYTES = 100_000
_SECONDS = 1.0  # between two looks at the files
_SHOWN = 40  # characters of a wrong value


@dataclass(frozen=True)
class Source:
    """name: where it is, as people say it after "in". given: by name. problem: why it could not be read."""

    name: str
    given: Mapping[str, Any]
    is_project: bool = False
    problem: str = ""


@dataclass
class Merged:
    """settings: what holds. came_from: the source of each that is set. wrong, unknown: a sentence for each
    value that cannot be used, and for each name that there is not."""

    settings: Settings = field(default_factory=Settings)
    came_from: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def merge(sources: Iterable[Source]) -> Merged:
    """What holds when the later sources stand over the earlier. A wrong value leaves the one before it."""
    merged, values = Merged(), dict[str, Any]()
    for source in sources:
        if source.problem:
            merged.wrong.append(source.problem)
        for given, value in source.given.items():
            name = _snake_case(str(given))
            if name not in TABLE:
                merged.unknown.append(_unknown(name, source))
            elif value is not None and value != "":
                _set(merged, values, name, value, source)
    merged.settings = Settings(**values)
    return merged


def _set(merged: Merged, values: dict[str, Any], name: str, value: Any, source: Source) -> None:
    kind, allowed = TABLE[name].kind, TABLE[name].project
    try:
        read = kind.read(value)
    except WrongValueError:
        shown = "" if kind.private else f", not {_short(value)}"
        merged.wrong.append(f"{name} in {source.name} must be {kind.words}{shown}; mend it there.")
        return
    if source.is_project and (not allowed or (allowed == "preset" and read not in PRESETS)):
        what = f"no other {name} than a preset" if allowed else f"{name} not"
        merged.wrong.append(
            f"A project may set {what}; take it out of {source.name}, or set it for yourself."
        )
        return
    if name == "languages":
        read = {**values.get(name, {}), **read}
    elif name == "exclude":
        read = tuple(dict.fromkeys((*values.get(name, ()), *read)))
    values[name] = read
    merged.came_from[name] = source.name


def _snake_case(name: str) -> str:
    """``maxTokens``, as editors write it, is ``max_tokens``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _unknown(name: str, source: Source) -> str:
    near = difflib.get_close_matches(name, TABLE, n=1)
    meant = f"; did you mean {near[0]}?" if near else "."
    return f"There is no setting {_short(name)} (in {source.name}){meant}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a table thousands deep
        return "what stands there"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class SettingsFile:
    """A TOML file of settings, which need not exist."""

    def __init__(self, path: Path, project: Path | None = None) -> None:
        """project: the folder whose file it is, and out of which no link of it may lead."""
        self._path = path
        self._project = project
        self._stamp = self._look()
        self.source = self._read()

    def changed(self) -> bool:
        """Whether it is not as it was last time; ``source`` is read anew then."""
        stamp = self._look()
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.source = self._read()
        return True

    def _look(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> Source:
        if self._stamp is None:
            return Source(str(self._path), {})
        try:
            given = self._toml()
        except (OSError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else type(error).__name__
            problem = f"{self._path} cannot be read, so none of its settings holds ({why}); mend it."
            return Source(str(self._path), {}, problem=problem)
        return Source(str(self._path), given, is_project=self._project is not None)

    def _toml(self) -> dict[str, Any]:
        if self._project and not self._path.resolve().is_relative_to(self._project.resolve()):
            raise ValueError("it is a link out of the project")
        with self._path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
        try:
            return tomllib.loads(data.decode("utf-8-sig"))  # with or without a byte order mark
        except UnicodeDecodeError:
            raise ValueError("it is not UTF-8") from None


def user_file() -> Path:
    return store.settings_path()


def from_environment(environment: Mapping[str, str]) -> Source:
    """``DRAFTLINE_MAX_TOKENS=32``: a text stands for itself, every other value is written as in TOML."""
    given: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable.startswith(_ENVIRONMENT) and variable not in _NO_SETTINGS:
            name = variable.removeprefix(_ENVIRONMENT).lower()
            given[name] = _parsed(text) if text and name in TABLE and not TABLE[name].kind.plain else text
    return Source("the environment", given)


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text  # which is no such value, and will be told


class Sources:
    """All sources of one server's settings."""

    def __init__(self, command_line: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._files = [SettingsFile(user_file())]
        self._fixed = [from_environment(os.environ), Source("the command line", command_line)]
        self._options: Mapping[str, Any] = {}
        self._configuration: Mapping[str, Any] = {}

    def trust(self, project: Path | None) -> None:
        """Let the file in the folder ``project`` count, and no other project's."""
        del self._files[1:]
        if project is not None:
            self._files.append(SettingsFile(project / PROJECT_FILE, project))

    def set_options(self, options: Any) -> None:
        """What the editor gave at the start."""
        self._options = _section(options)

    def set_configuration(self, configuration: Any) -> None:
        """What the editor says is set now, in its section "draftline"; it stands over what it gave first."""
        self._configuration = _section(configuration)

    def changed(self) -> bool:
        """Whether a file has changed since. Looks at most once a second, so it costs nothing to ask."""
        if self._clock() - self._looked < _SECONDS:
            return False
        self._looked = self._clock()
        return sum(file.changed() for file in self._files) > 0  # each is looked at

    def merged(self) -> Merged:
        editor = [Source("the editor's settings", one) for one in (self._options, self._configuration)]
        return merge([*(file.source for file in self._files), *self._fixed, *editor])


def _section(value: Any) -> Mapping[str, Any]:
    """The settings in what a client sent, which may be all of its settings, or nothing."""
    if not isinstance(value, Mapping):
        return {}
    section = value.get("draftline", value)
    return section if isinstance(section, Mapping) else {}
