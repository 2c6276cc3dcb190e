"""What model-setup has done in a repository, so that nothing is done twice, and how fast this machine was.

A step is done if its input is what it was, what it made is as it left it, and it is given no more time than
it had. Each entry is written at once when its step has ended, so a run that is killed loses the step that was
under way, which goes on by itself where it can.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from model_setup import store
from model_setup.progress import say

VERSION = 1
NEVER_DONE = "not done yet"
_MORE_TIME = 1.5  # estimates differ from run to run: less than that more is no reason to do a step again


@dataclass(frozen=True)
class Done:
    """input: what the step's result depends on, named for people -> a hash of it. given: seconds it had at
    most, 0 if it takes what it needs. took: seconds. when: ISO 8601, UTC. outputs: path -> size and time of
    modification in ns. said: what came of it, for people."""

    input: dict[str, str]
    given: float
    took: float
    when: str
    outputs: dict[str, list[int]]
    said: str

    def still_holds(self) -> bool:
        return all(_stamp(Path(path)) == stamp for path, stamp in self.outputs.items())


class Record:
    """The steps that are done in one repository. Its file may be missing, damaged or of another version."""

    def __init__(self, repository: Path) -> None:
        self.path = store.record_path(repository)
        self._repository = store.repository_root(repository)
        self._done: dict[str, Done] = {}
        try:
            value = json.loads(self.path.read_text(encoding="utf-8"))
            if value["version"] == VERSION:
                self._done = {name: Done(**entry) for name, entry in value["steps"].items()}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            say(f"The record {self.path} is damaged; every step is looked at anew, and what was made stays.")

    def __getitem__(self, step: str) -> Done | None:
        return self._done.get(step)

    def is_done(self, step: str, current: Mapping[str, str], asked: float) -> bool:
        """Whether ``step`` need not be done again, with the input that there is now and that much time."""
        return not self.changes(step, current) and asked <= self._done[step].given * _MORE_TIME

    def changes(self, step: str, current: Mapping[str, str]) -> list[str]:
        """What is no longer as it was when ``step`` was done, for people; nothing if all is."""
        done = self._done.get(step)
        if done is None:
            return [NEVER_DONE]
        changed = [f"{name} changed" for name in current if current[name] != done.input.get(name)]
        return changed if done.still_holds() else [*changed, "what it made is gone"]

    def note(
        self,
        step: str,
        current: Mapping[str, str],
        given: float,
        took: float,
        outputs: Iterable[Path],
        said: str,
    ) -> None:
        when = datetime.now(timezone.utc).isoformat(timespec="seconds")
        stamps = {str(path): stamp for path in outputs if (stamp := _stamp(path)) is not None}
        self._done[step] = Done(dict(current), given, took, when, stamps, said)
        steps = {name: asdict(done) for name, done in self._done.items()}
        store.write_json(self.path, {"version": VERSION, "repository": str(self._repository), "steps": steps})


def _stamp(path: Path) -> list[int] | None:
    """Of a folder, that of its manifest, which is written last."""
    try:
        status = (path / store.MANIFEST if path.is_dir() else path).stat()
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]


class Rates:
    """Units a second that this machine did last time, by kind of work, and the guesses until it has."""

    def __init__(self, guesses: dict[str, float]) -> None:
        self._guesses = guesses
        self._measured: dict[str, float] = {}
        try:
            value: Any = json.loads(store.rates_path().read_text(encoding="utf-8"))
            self._measured = {
                name: float(value[name]) for name in guesses if name in value and float(value[name]) > 0
            }
        except (OSError, ValueError, TypeError):
            pass  # measured again as the steps are done

    def __getitem__(self, work: str) -> float:
        return self._measured.get(work, self._guesses[work])

    def is_measured(self, work: str) -> bool:
        return work in self._measured

    def note(self, work: str, units: float, seconds: float) -> None:
        if units > 0 and seconds > 0:
            self._measured[work] = units / seconds
            store.write_json(store.rates_path(), self._measured)
