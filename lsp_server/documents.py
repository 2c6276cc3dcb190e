"""Open documents: their text, their versions, and positions in the client's encoding.

A document is a list of lines, so that an edit or a position costs no more in a large file than in a
small one. Lines end where the protocol says, at ``\\n``, ``\\r\\n`` or ``\\r``, and nowhere else:
``str.splitlines`` also splits at form feeds and U+2028, which puts every later edit out of step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Encoding = Literal["utf-8", "utf-16", "utf-32"]

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
_UTF8_CONTINUATION = bytes(range(0x80, 0xC0))


def split_lines(text: str) -> list[str]:
    """The lines of ``text``, each with its line end; the last one has none (and may be empty)."""
    lines = _LINE.findall(text)
    if not lines or lines[-1][-1] in "\r\n":
        lines.append("")
    return lines


def without_line_end(line: str) -> str:
    return line.rstrip("\r\n")


def characters_before(line: str, units: int, encoding: Encoding) -> int:
    """How many characters of ``line`` lie before the column ``units``, counted in ``encoding``'s code units.

    A column past the end is the end; one inside a character is the character's beginning.
    """
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    if encoding == "utf-8":
        data = line.encode("utf-8", "surrogatepass")
        if units >= len(data):
            return len(line)
        started = len(data[:units].translate(None, delete=_UTF8_CONTINUATION))
        inside = data[units] in _UTF8_CONTINUATION
        return started - inside
    characters = units
    for astral in _ASTRAL.finditer(line):
        if astral.start() >= characters - 1:
            if astral.start() == characters - 1:
                characters -= 1
            break
        characters -= 1
    return min(characters, len(line))


def units_before(line: str, characters: int, encoding: Encoding) -> int:
    """The column of ``line``'s character number ``characters``, in ``encoding``'s code units."""
    if encoding == "utf-32" or line.isascii():
        return characters
    if encoding == "utf-8":
        return len(line[:characters].encode("utf-8", "surrogatepass"))
    return characters + sum(1 for _ in _ASTRAL.finditer(line, 0, characters))


@dataclass(frozen=True, order=True)
class Cursor:
    """A place in a text: line from 0, and the number of characters to its left on that line."""

    line: int
    character: int


def end_of(start: Cursor, text: str) -> Cursor:
    """Where ``text`` ends that begins at ``start``."""
    lines = split_lines(text)
    if len(lines) == 1:
        return Cursor(start.line, start.character + len(text))
    return Cursor(start.line + len(lines) - 1, len(lines[-1]))


def text_from(lines: Sequence[str], cursor: Cursor, size: int) -> str:
    """At most ``size`` characters from ``cursor`` on."""
    parts = [lines[cursor.line][cursor.character : cursor.character + size]]
    length, number = len(parts[0]), cursor.line
    while length < size and number + 1 < len(lines):
        number += 1
        parts.append(lines[number][: size - length])
        length += len(parts[-1])
    return "".join(parts)


def splice(lines: list[str], start: Cursor, end: Cursor, text: str) -> Cursor:
    """Put ``text`` in place of what lies between two places of ``lines``; gives where it ends then."""
    top = start.line
    before, after = lines[top][: start.character] + text, lines[end.line][end.character :]
    # A lone "\r" just above becomes one line end together with a "\n" that now follows it.
    if top > 0 and (before or after).startswith("\n") and lines[top - 1].endswith("\r"):
        top -= 1
        before = lines[top] + before
    new = split_lines(before + after)
    if end.line + 1 < len(lines) and not new[-1]:
        new.pop()
    lines[top : end.line + 1] = new
    return end_of(Cursor(top, 0), before)


class Document:
    """One open document. Columns given to its methods count code units of the client's encoding."""

    def __init__(
        self, text: str, version: int | None = None, encoding: Encoding = "utf-16", language: str = ""
    ) -> None:
        """language: its identifier, as the editor gives it."""
        self.lines = split_lines(text)
        self.version = version
        self.language = language
        self._encoding: Encoding = encoding

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def cursor(self, line: int, units: int) -> Cursor:
        """The place of a position: at most its line's end, and below the last line the text's end."""
        if line >= len(self.lines):
            return Cursor(len(self.lines) - 1, len(self.lines[-1]))
        return Cursor(line, characters_before(without_line_end(self.lines[line]), units, self._encoding))

    def column(self, cursor: Cursor) -> int:
        """The inverse of ``cursor``: the column in code units."""
        return units_before(self.lines[cursor.line], cursor.character, self._encoding)

    def replace(self, text: str) -> None:
        """Take ``text`` as the whole document."""
        self.lines = split_lines(text)

    def edit(self, start: tuple[int, int], end: tuple[int, int], text: str) -> Cursor:
        """Put ``text`` in place of what lies between two (line, column) positions; gives where it ends."""
        first, last = sorted((self.cursor(*start), self.cursor(*end)))
        return splice(self.lines, first, last, text)

    def snapshot(self) -> Sequence[str]:
        """The lines as they are now; later edits do not touch the answer."""
        return tuple(self.lines)
