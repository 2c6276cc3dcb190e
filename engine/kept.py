"""What was read from files, kept until the files change on disk."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from engine.errors import DraftlineError

T = TypeVar("T")
State = tuple[tuple[str, int, int, int], ...]

logger = logging.getLogger(__name__)


class Kept(Generic[T]):
    """The ``most`` things that were asked for last, each as its file or folder is now."""

    def __init__(self, read: Callable[[Path], T], most: int) -> None:
        self._read = read
        self._most = most
        self._known: dict[Path, tuple[State, T | None]] = {}

    def get(self, path: Path) -> T | None:
        """What ``path`` holds; where it has not changed, that takes a look at the files' ages only.

        None if there is nothing, or ``read`` raises a DraftlineError, which then goes to the log once.
        """
        state = state_of(path)
        known = self._known.pop(path, ((), None))
        if known[0] != state:
            known = state, None  # frees the old one before the new one is read
            try:
                known = state, self._read(path)
            except DraftlineError as error:
                logger.warning("%s", error)
        self._known[path] = known
        while len(self._known) > self._most:
            self._known.pop(next(iter(self._known)))
        return known[1]

    def holds(self, value: object) -> bool:
        return any(value is known for _, known in self._known.values())


def state_of(path: Path) -> State:
    """Name, size, age and number of a file, or of all files directly in a folder; empty if there is none."""
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, status.st_size, status.st_mtime_ns, status.st_ino) for name, status in found)
