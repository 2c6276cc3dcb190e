"""Suggestions that were computed already, found again by the text round the cursor.

A suggestion is kept under the text before and after its cursor, as far as that matters. It serves again
at the same place, and wherever its own beginning stands behind that place: the user has typed it, or
accepted a part of it, or deleted back to where it began.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from lsp_server.documents import Cursor, text_from
from lsp_server.suggestion import Suggestion

BEFORE = 2000  # characters that a suggestion is taken to depend on
AFTER = 500
TYPED = 400  # characters of a suggestion that may have been typed
_ENTRIES = 250
_BYTES = 4_000_000

_TAIL = 8  # characters that tell most places apart, so that few windows are hashed whole

Key = tuple[str, int, str, int]


@dataclass(frozen=True)
class Known:
    """suggestions: the best first, and at least one, which may be empty. several: more were looked for."""

    suggestions: tuple[Suggestion, ...]
    several: bool = False

    @property
    def nothing_yet(self) -> bool:
        """Whether the model was stopped before it had written anything to show."""
        return self.suggestions[0].cut and not self.suggestions[0].text

    def after(self, typed: str) -> Known | None:
        """What is left of those that begin with ``typed``; None if nothing is."""
        left = [one.after(typed) for one in self.suggestions if one.text.startswith(typed)]
        left = [one for one in left if one.text.strip()]
        return Known(tuple(left), self.several) if left else None

    @property
    def size(self) -> int:
        """In bytes, nearly."""
        return sum(400 + 4 * len(one.text) + 80 * len(one.tokens) for one in self.suggestions)


@dataclass(frozen=True)
class Window:
    """The text round a cursor, at most BEFORE + TYPED and AFTER characters."""

    before: str
    after: str


def window_of(lines: Sequence[str], cursor: Cursor) -> Window:
    """In time that depends on the window's size, not on the text's."""
    size = BEFORE + TYPED
    parts = [lines[cursor.line][max(0, cursor.character - size) : cursor.character]]
    length, number = len(parts[0]), cursor.line
    while length < size and number > 0:
        number -= 1
        parts.append(lines[number][length - size :])
        length += len(parts[-1])
    return Window("".join(reversed(parts)), text_from(lines, cursor, AFTER))


class Cache:
    """The most recently used are kept, within limits of number and size."""

    def __init__(self, entries: int = _ENTRIES, size: int = _BYTES) -> None:
        self._known: OrderedDict[Key, Known] = OrderedDict()
        self._entries = entries
        self._room = size

    def __len__(self) -> int:
        return len(self._known)

    def get(self, uri: str, window: Window) -> Known | None:
        """What is known for this place, or else what is left of the suggestion whose beginning was typed."""
        before, after = window.before, hash(window.after)
        tails = {tail for where, right, tail, _ in self._known if right == after and where == uri}
        for typed in range(min(len(before), TYPED) + 1):
            end = len(before) - typed
            tail = before[max(0, end - _TAIL) : end]
            if tail not in tails:
                continue
            key = (uri, after, tail, hash(before[max(0, end - BEFORE) : end]))
            known = self._known.get(key)
            left = known and (known.after(before[end:]) if typed else known)
            if left:
                self._known.move_to_end(key)
                return left
        return None

    def put(self, uri: str, window: Window, known: Known) -> None:
        before = window.before
        key = (uri, hash(window.after), before[-_TAIL:], hash(before[-BEFORE:]))
        if key in self._known:
            self._room += self._known.pop(key).size
        self._known[key] = known
        self._room -= known.size
        while len(self._known) > self._entries or self._room < 0:
            _, dropped = self._known.popitem(last=False)
            self._room += dropped.size
