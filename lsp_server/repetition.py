"""Where a model begins to say the same again and again, as small ones do where they know no better.

Rows that are alike but not the same are no repetition, nor are a few zeros or closing brackets in a row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_LONGEST = 40  # characters of what is repeated within a line
_CHARACTERS = 32  # of all its copies together, at least
_COPIES = [max(4, -(-_CHARACTERS // size)) for size in range(1, _LONGEST + 1)]  # by its size
_THREE_IN_A_ROW = re.compile(rf"(\S.{{0,{_LONGEST - 1}}}?)\1\1")  # in all that follow, and seldom elsewhere
_REPEATED = [
    # with a letter or digit in it: rulers of signs are meant
    re.compile(rf"(?=(.{{{size}}})\1{{{copies - 1}}})(?=.{{0,{size - 1}}}[^\W_])")
    for size, copies in enumerate(_COPIES, 1)
]
_LINES = 6  # that are repeated together, at most
_ONCE_TOO_OFTEN = {1: 3, 2: 3}  # copies by the number of lines; of more lines two
_ELEMENTS = 6  # copies of lines that end in a comma: a table may have equal rows


@dataclass(frozen=True)
class Repetition:
    """end: where its first copy ends. seen: how much of the text it took to tell."""

    end: int
    seen: int


def first_repetition(text: str, left: str) -> Repetition | None:
    """The first to be seen in ``text``, which continues the line ``left``.

    Whatever is written after it, the answer stays the same.
    """
    seen = [found for found in (_within_a_line(text), _of_lines(text, left)) if found]
    return min(seen, key=lambda repetition: repetition.seen, default=None)


def _within_a_line(text: str) -> Repetition | None:
    start = 0
    for line in text.split("\n"):
        if found := _in_line(line):
            return Repetition(start + found.end, start + found.seen)
        start += len(line) + 1
    return None


@lru_cache(maxsize=256)  # after each token, all lines but the last are the same again
def _in_line(line: str) -> Repetition | None:
    if len(line) < _CHARACTERS or not _THREE_IN_A_ROW.search(line):
        return None
    found = []
    for size, (copies, pattern) in enumerate(zip(_COPIES, _REPEATED, strict=True), 1):
        if match := pattern.search(line):
            found.append(Repetition(match.end(1), match.start() + size * copies))
    return min(found, key=lambda repetition: repetition.seen, default=None)


def _of_lines(text: str, left: str) -> Repetition | None:
    lines = text.split("\n")[:-1]  # the last may go on
    if len(lines) < min(_ONCE_TOO_OFTEN.values()):
        return None
    ends = [len(lines[0])]
    for line in lines[1:]:
        ends.append(ends[-1] + 1 + len(line))
    lines[0] = left + lines[0]
    for last in range(1, len(lines) + 1):
        for size in range(1, min(_LINES, last // 2) + 1):
            unit = lines[last - size : last]
            first = last - _copies(unit) * size
            if first < 0 or not any(map(_says_something, unit)):
                continue
            if lines[first:last] == unit * _copies(unit):
                return Repetition(ends[first + size - 1], ends[last - 1] + 1)
    return None


def _copies(unit: Sequence[str]) -> int:
    if all(line.rstrip().endswith(",") for line in unit):
        return _ELEMENTS
    return _ONCE_TOO_OFTEN.get(len(unit), 2)


def _says_something(line: str) -> bool:
    return sum(map(str.isalnum, line)) > 2
