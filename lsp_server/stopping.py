"""Where a suggestion ends, judged on what the model has written so far.

With text right of the cursor it is this line, and so it is where the line's body stands below already.
Otherwise it is the block: the statement that the user has begun with all that is indented below it and up to
the bracket that closes it, or the statements that follow at the cursor's indentation. Wherever the model
begins to repeat itself, it ends behind the first time.
"""

from __future__ import annotations

from dataclasses import dataclass

from lsp_server.brackets import PAIRS, Brackets
from lsp_server.indentation import indentation
from lsp_server.repetition import first_repetition

_BRACKETS = (*PAIRS, "{")  # a line that begins with one belongs to the line above
_GOES_ON = (":", "{", "(", "[", ",")
_BLANK_LINES = 2  # in a row, they end a block; one more is let pass before its first line


@dataclass(frozen=True)
class Place:
    """The text round a cursor.

    left, right: the halves of its line. below: the first few of the following lines that are not blank.
    above: the last few of those before, the nearest first. All without line ends.
    """

    left: str
    right: str
    below: tuple[str, ...]
    above: tuple[str, ...] = ()

    @property
    def one_line(self) -> bool:
        return bool(self.right.strip()) or self._has_body

    @property
    def _has_body(self) -> bool:
        begun = bool(self.left.strip()) and bool(self.below)
        return begun and indentation(self.below[0]) > indentation(self.left)


def end_of_suggestion(text: str, place: Place) -> int | None:
    """How much of ``text`` (line ends "\\n") is the suggestion; None while its end is not in sight.

    The answer for a text never changes when more is written after it.
    """
    repetition = first_repetition(text, place.left)
    if repetition is None:
        return _end_of_place(text, place)
    end = _end_of_place(text[: repetition.seen], place)
    return repetition.end if end is None else end


def _end_of_place(text: str, place: Place) -> int | None:
    if place.one_line:
        end = text.find("\n")
        if end < 0:
            return None
        this_line = bool(place.left.strip()) or text[:end].rstrip().endswith(place.right.strip())
        # A line of its own, meant to stand above this one: without its line end it would run into it.
        return end if this_line else 0
    return _end_of_block(text, place)


def _end_of_block(text: str, place: Place) -> int | None:
    begun = bool(place.left.strip())
    base = indentation(place.left) if begun or place.left else None
    opened: bool | None = None  # does the line after the first belong to the first?
    brackets = Brackets()
    end = blanks = start = 0
    lines = text.split("\n")
    for number, written in enumerate(lines):
        whole = number < len(lines) - 1
        line = place.left + written if number == 0 else written
        inside, within_string = bool(brackets.open), bool(brackets.quote)
        brackets.read(line)
        if not line.strip():
            blanks += whole
            if blanks == (_BLANK_LINES if end > 0 else _BLANK_LINES + 1):
                return end
        else:
            if whole and written.strip() and place.below and line.rstrip() == place.below[0].rstrip():
                return end
            deep = indentation(line)
            if base is None:
                base = deep
            elif number > 0 and not within_string:
                if opened is None:
                    opened = (inside or deep > base or line.strip() == "{") and (begun or base == 0)
                at_base = opened and deep == base
                if deep < base or (at_base and not inside and not line.lstrip().startswith(_BRACKETS)):
                    return end
                if at_base and whole and not brackets.open and not line.rstrip().endswith(_GOES_ON):
                    return start + len(written)
            end, blanks = start + len(written), 0
        start += len(written) + 1
    return None
