"""From what the model wrote to what to insert: nothing that already stands right of the cursor or below it.

Trimming only ever cuts the end off, so a suggestion is a beginning of the model's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from lsp_server.brackets import PAIRS, Brackets, close
from lsp_server.documents import without_line_end
from lsp_server.indentation import indentation
from lsp_server.stopping import Place

_QUOTES = "\"'`"
_SEPARATORS = ";,:"
_CLOSERS = "".join(PAIRS) + _QUOTES + _SEPARATORS
_TELLING = 3  # a line of fewer characters may well be repeated
_CONTROL = re.compile(
    r"</?[|｜][\w▁]+[|｜]>|</?fim_\w+>|<EOT>"  # which models now and then spell out
    r"|[\0-\x08\x0e-\x1f\x7f-\x9f]"  # which no text should have that is shown in an editor or a terminal
)
_SAYS_NOTHING = re.compile(r"\s*(?:#{1,3}|//+|/\*+)?\s*")


def trim(text: str, place: Place, unfinished: bool, went_on: bool = False) -> str:
    """What of ``text`` (line ends "\\n") to insert; empty if nothing is left that is worth showing.

    unfinished: the model was stopped in mid-text, so the last line may be half a line. went_on: it wrote more
    behind ``text``, so that it did not end where the rest of the line begins.
    """
    if control := _CONTROL.search(text):
        text = text[: control.start()]
    if place.right.strip():
        text = _without_doubled_rest(text, place.left, place.right, went_on)
    else:
        text = _without_lines_below(text, place, unfinished)
        text = _without_brackets_below(text, place)
        head, newline, _ = text.rpartition("\n")
        if unfinished and newline and head.strip():
            text = head
        text = text.rstrip()
        if _SAYS_NOTHING.fullmatch(text):
            return ""
    return text if text.strip() else ""


def _without_doubled_rest(text: str, left: str, right: str, went_on: bool) -> str:
    """Cut what the rest of the line would repeat: all of it, or from a bracket or quote on that it closes."""
    rest = right.strip()
    if rest.strip(_CLOSERS):
        if text.endswith(rest) and (went_on or len(rest) >= _TELLING or _begins_a_word(rest, text)):
            text = text[: -len(rest)].rstrip() if right[0].isspace() else text[: -len(rest)]
    elif text.endswith(rest) and (went_on or len(rest) > 1 or rest in _QUOTES):
        # of brackets and quotes, only if they are too many, or the line was whole without them
        cut = text.removesuffix(rest)
        if _unmatched(left + cut + right) < _unmatched(left + text + right) or (
            went_on and _is_whole(left + text)
        ):
            return cut
    if not rest.strip(_SEPARATORS) and text.rstrip().endswith(rest):
        text = text.rstrip().removesuffix(rest).rstrip()
    closers = _leading(rest, "".join(PAIRS) + _QUOTES)
    return _cut_at(closers, text, lambda text: _unmatched(left + text + right))


def _is_whole(line: str) -> bool:
    brackets = Brackets()
    brackets.read(line)
    return not brackets.open and not brackets.unmatched


def _begins_a_word(rest: str, text: str) -> bool:
    return re.search(rf"(?:\b|(?!\w)){re.escape(rest)}\Z", text) is not None


def _cut_at(closers: str, text: str, unmatched: Callable[[str], int]) -> str:
    """All of ``text``, or what stands before one of ``closers`` in it: the longest that leaves no more
    ``unmatched`` than there are without it, or if none does, the fewest."""
    if not closers:
        return text
    before = unmatched("")
    ends = [end for end in range(len(text), -1, -1) if end == len(text) or text[end] in closers]
    return text[: min(ends, key=lambda end: max(before, unmatched(text[:end])))]


def _leading(text: str, characters: str) -> str:
    return text[: len(text) - len(text.lstrip(characters))]


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
        elif character in PAIRS.values():
            opened.append(character)
        elif character in PAIRS and not close(opened, character):
            unmatched += 1
    return unmatched + bool(quote)


def _without_brackets_below(text: str, place: Place) -> str:
    """Cut from a bracket on that closes what the next line closes already."""
    closers = _leading(place.below[0].lstrip(), "".join(PAIRS)) if place.below else ""
    if not closers:
        return text
    # a line of closing brackets belongs to the nearest line that is not deeper, and to those in between
    depth = indentation(place.below[0])
    before: list[str] = []
    if indentation(place.left) > depth or not place.left.strip():
        for line in place.above:
            before.insert(0, line)
            if indentation(line) <= depth:
                break
        else:  # it is too far away
            before.insert(0, "".join(PAIRS[closer] for closer in reversed(closers)))

    def unmatched(text: str) -> int:
        brackets = Brackets()
        for line in (*before, *(place.left + text).split("\n"), closers):
            brackets.read(line)
        return brackets.unmatched

    return _cut_at(closers, text, unmatched)


def _without_lines_below(text: str, place: Place, unfinished: bool) -> str:
    lines = text.split("\n")
    for number in range(len(lines)):
        written = [place.left + lines[0], *lines[1:]][number:]
        end = [line.rstrip() for line in written if line.strip()]
        if not lines[number].strip() or not end:
            continue
        typed = number == 0 and place.left.strip()  # the user wants that line
        for skipped in range(1 if typed else len(place.below)):
            if (skipped and len(end[0].strip()) < _TELLING) or (skipped > 1 and len(end) < 2):
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
