"""A file of what was measured, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


class Journal:
    """Measurements by their settings: JSON lines in ``path``, or only in memory if that is None."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._measured: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            for line in text.splitlines():
                with contextlib.suppress(ValueError, KeyError, TypeError):  # half a line: the run was killed
                    entry = json.loads(line)
                    self._measured[_key(entry["settings"])] = entry["measured"]
            if not text.endswith("\n"):
                with path.open("a", encoding="utf-8") as file:
                    file.write("\n")  # or the next line would end the half one, and be lost with it

    def __contains__(self, settings: Mapping[str, Any]) -> bool:
        return _key(settings) in self._measured

    def once(self, settings: Mapping[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What ``measure`` gives, called only if nothing is known for ``settings``. Both must be JSON."""
        key = _key(settings)
        if key not in self._measured:
            self._measured[key] = measured = measure()
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"settings": settings, "measured": measured}) + "\n")
        return self._measured[key]


def _key(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
