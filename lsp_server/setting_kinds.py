"""What values a setting takes: how it is said, checked, and described to editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pathspec import GitIgnoreSpec


class WrongValueError(Exception):
    """The value is not of this kind."""


@dataclass(frozen=True)
class Kind:
    """words: what the value must be, as in "must be ...". read: the value as it is kept, or WrongValueError.

    schema: the same as a JSON schema, without a default. plain: from the environment a text is taken as
    it stands, else it is read as in a TOML file. private: never shown or logged.
    """

    words: str
    read: Callable[[Any], Any]
    schema: Mapping[str, Any]
    plain: bool = False
    private: bool = False


def whole(lowest: int, highest: int) -> Kind:
    """A whole number from ``lowest`` to ``highest``."""

    def read(value: Any) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON and Lua know one kind of number
        if type(value) is not int or not lowest <= value <= highest:
            raise WrongValueError
        return value

    words = f"a whole number from {lowest} to {highest}"
    return Kind(words, read, {"type": "integer", "minimum": lowest, "maximum": highest})


def number(lowest: float, highest: float) -> Kind:
    """A number from ``lowest`` to ``highest``."""

    def read(value: Any) -> float:
        if type(value) not in (int, float) or not lowest <= value <= highest:  # as NaN and infinity are not
            raise WrongValueError
        return float(value)

    words = f"a number from {lowest:g} to {highest:g}"
    return Kind(words, read, {"type": "number", "minimum": lowest, "maximum": highest})


def one_of(*values: str) -> Kind:
    def read(value: Any) -> Any:
        if value not in values:
            raise WrongValueError
        return value

    quoted = [f'"{value}"' for value in values]
    words = ", ".join(quoted[:-1]) + " or " + quoted[-1]
    return Kind(words, read, {"type": "string", "enum": list(values)}, plain=True)


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise WrongValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise WrongValueError
    return value


def _path(value: Any) -> str:
    try:
        return str(Path(_text(value)).expanduser())
    except RuntimeError as error:  # "~" and the name of nobody here
        raise WrongValueError from error


def _globs(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise WrongValueError
    globs = tuple(_text(glob) for glob in value)
    if any(glob.startswith("!") for glob in globs):  # would take back what another source excludes
        raise WrongValueError
    try:
        GitIgnoreSpec.from_lines(globs)
    except ValueError as error:
        raise WrongValueError from error
    return globs


def _flags(value: Any) -> dict[str, bool]:
    if not isinstance(value, Mapping):
        raise WrongValueError
    return {_text(name): _flag(flag) for name, flag in value.items()}


def _web_address(value: Any) -> str:
    address = _text(value)
    try:
        parts = urlsplit(address)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError as error:
        raise WrongValueError from error
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or not port_is_one:
        raise WrongValueError
    return address


FLAG = Kind("true or false", _flag, {"type": "boolean"})
PATH = Kind("a path", _path, {"type": "string"}, plain=True)
TEXT = Kind("a text", _text, {"type": "string"}, plain=True)
GLOBS = Kind(
    'a list of patterns as in a .gitignore, none of them with "!"',
    _globs,
    {"type": "array", "items": {"type": "string"}},
)
FLAGS = Kind(
    "a table of true or false by language",
    _flags,
    {"type": "object", "additionalProperties": {"type": "boolean"}},
)
WEB_ADDRESS = Kind(
    "an http or https address without a name and password in it",
    _web_address,
    {"type": "string"},
    plain=True,
    private=True,
)
