"""From what the model wrote to what to insert: nothing that already stands right of the cursor or below it.

Trimming only ever cuts the end off, so a suggestion is a beginning of the model's text.
"""

from __future__ import annotations

from collections.abc import Sequence

from lsp_server.documents import without_line_end
from lsp_server.stopping import Place

_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTES = "\"'`"
_SEPARATORS = ";,:"
_CLOSERS = "".join(_PAIRS) + _QUOTES + _SEPARATORS
_TELLING = 3  # a line of fewer characters may well be repeated


def trim(text: str, place: Place, unfinished: bool) -> str:
    """What of ``text`` (line ends "\\n") to insert; empty if nothing is left that is worth showing.

    unfinished: the model was stopped in mid-text, so the last line may be half a line.
    """
    if place.one_line:
        text = _without_doubled_rest(text, place.left, place.right)
    else:
        text = _without_lines_below(text, place, unfinished)
        head, newline, _ = text.rpartition("\n")
        if unfinished and newline and head.strip():
            text = head
        text = text.rstrip()
    return text if text.strip() else ""


def _without_doubled_rest(text: str, left: str, right: str) -> str:
    """Cut what the rest of the line would repeat: all of it, or from a bracket or quote on that it closes."""
    rest = right.strip()
    if rest.strip(_CLOSERS) and text.endswith(rest):
        return text[: -len(rest)].rstrip() if right[0].isspace() else text[: -len(rest)]
    if not rest.strip(_SEPARATORS) and text.rstrip().endswith(rest):
        return text.rstrip().removesuffix(rest).rstrip()
    first = right.lstrip()[:1]
    if first not in _CLOSERS:
        return text
    excess = _unmatched(left + right)
    for end in range(len(text), -1, -1):
        if text[end : end + 1] in ("", first) and _unmatched(left + text[:end] + right) <= excess:
            return text[:end]
    return text


def _unmatched(line: str) -> int:
    """How many closing brackets in ``line`` have no opening one, and quotes no partner."""
    opened: list[str] = []
    unmatched = 0
    quote = ""
    for character in line:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        elif character in _PAIRS.values():
            opened.append(character)
        elif character in _PAIRS:
            if opened and opened[-1] == _PAIRS[character]:
                opened.pop()
            else:
                unmatched += 1
    return unmatched + bool(quote)


def _without_lines_below(text: str, place: Place, unfinished: bool) -> str:
    lines = text.split("\n")
    for number in range(len(lines)):
        written = [place.left + lines[0], *lines[1:]][number:]
        end = [line.rstrip() for line in written if line.strip()]
        if not lines[number].strip() or not end:
            continue
        for skipped in range(len(place.below)):
            if skipped and len(end[0].strip()) < _TELLING:
                break
            if _repeats(end, place.below[skipped:], unfinished):
                return "\n".join(lines[:number])
    return text


def _repeats(end: Sequence[str], below: Sequence[str], unfinished: bool) -> bool:
    """Do the lines ``end`` stand at the top of ``below``, the last of them perhaps only begun?"""
    if len(end) > len(below):
        return False
    *whole, last = end
    if any(ours != theirs.rstrip() for ours, theirs in zip(whole, below, strict=False)):
        return False
    theirs = below[len(whole)].rstrip()
    begun = unfinished and len(last.strip()) >= _TELLING and theirs.startswith(last)
    return last == theirs or begun


def line_end(lines: Sequence[str], line: int) -> str:
    """The line end in use round ``line``: its own, else that of the line above, else "\\n"."""
    for candidate in (lines[line], lines[max(0, line - 1)]):
        if end := candidate[len(without_line_end(candidate)) :]:
            return end
    return "\n"
