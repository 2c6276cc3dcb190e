"""What became of the suggestions that were shown: told by the editor, else by what the text is now.

Editors that can run a command when a suggestion is accepted are asked to. For all others the text tells:
once a suggestion stands in it where it was offered, it was accepted; once something else stands there, it
was not. Only counts are kept, in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lsp_server.documents import Cursor, end_of, text_from

_RIGHT = 40  # characters right of a suggestion, on its line, by which its place is known again
_END = "\0"  # of the document
Outcome = Literal["accepted", "partly", "rejected"]


@dataclass(frozen=True)
class _Shown:
    """number: unique. texts: the suggestions offered at ``place``, so far as they are not in the text yet.

    right: what stands right of it. partly: more than one character of it came into the text at once.
    """

    number: int
    place: Cursor
    texts: tuple[str, ...]
    right: str
    partly: bool = False


class Outcomes:
    """At most one suggestion is shown in each document."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {"shown": 0, "accepted": 0, "partly": 0, "rejected": 0}
        self._shown: dict[str, _Shown] = {}
        self._number = 0
        self._last: tuple[int, Outcome] | None = None

    def show(self, uri: str, lines: Sequence[str], start: Cursor, end: Cursor, texts: Sequence[str]) -> int:
        """Alternatives are shown in place of what stands from ``start`` to ``end``; gives their number.

        What is left of a suggestion that the user is typing is still the same one.
        """
        right = lines[end.line][end.character :][:_RIGHT] or _END
        shown = _Shown(self._number + 1, start, tuple(texts), right)
        shown = _advanced(shown, _standing(shown, lines) or "")
        known = self._shown.get(uri)
        if known and known.place == shown.place and known.texts[0] == shown.texts[0]:
            self._shown[uri] = replace(shown, number=known.number, partly=known.partly)
            return known.number
        if known:
            self._end(uri, "rejected")
        self._number = shown.number
        self.counts["shown"] += 1
        self._shown[uri] = shown
        return shown.number

    def changed(self, uri: str, lines: Sequence[str]) -> None:
        """A document has become ``lines``."""
        before = self._shown.get(uri)
        if before is None:
            return
        standing = _standing(before, lines)
        if standing is None:
            return self._end(uri, "rejected")
        now = _advanced(before, standing)
        self._shown[uri] = replace(now, partly=before.partly or len(standing) > 1)
        if not all(now.texts):
            self._end(uri, "accepted")

    def accepted(self, number: int) -> None:
        """The editor says so. It changes the text first, and perhaps more of it than the suggestion."""
        for uri, shown in self._shown.items():
            if shown.number == number:
                return self._end(uri, "accepted")
        if self._last and self._last[0] == number and self._last[1] != "accepted":
            self.counts[self._last[1]] -= 1
            self._count(number, "accepted")

    def closed(self, uri: str) -> None:
        if uri in self._shown:
            self._end(uri, "rejected")

    def _end(self, uri: str, outcome: Outcome) -> None:
        shown = self._shown.pop(uri)
        self._count(shown.number, "partly" if shown.partly and outcome == "rejected" else outcome)

    def _count(self, number: int, outcome: Outcome) -> None:
        self.counts[outcome] += 1
        self._last = number, outcome


def _standing(shown: _Shown, lines: Sequence[str]) -> str | None:
    """How much of it stands in the text at its place; None if something else does."""
    if shown.place.line >= len(lines):
        return None
    size = max(map(len, shown.texts)) + _RIGHT
    here = text_from(lines, shown.place, size)
    if len(here) < size:
        here += _END
    typed = max(_typed(text, here, shown.right) for text in shown.texts)
    return here[:typed] if typed >= 0 else None


def _advanced(shown: _Shown, beginning: str) -> _Shown:
    left = tuple(text[len(beginning) :] for text in shown.texts if text.startswith(beginning))
    return replace(shown, place=end_of(shown.place, beginning), texts=left)


def _typed(text: str, here: str, right: str) -> int:
    """How many characters of ``text`` stand in ``here`` before ``right``; -1 if something else does."""
    shared = 0
    while shared < min(len(text), len(here)) and text[shared] == here[shared]:
        shared += 1
    return next((typed for typed in range(shared, -1, -1) if here.startswith(right, typed)), -1)
