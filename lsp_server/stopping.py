"""Where a suggestion ends, judged on what the model has written so far.

With text right of the cursor it is this line. Otherwise it is the block: the statement that the user
has begun with all that is indented below it, or the statements that follow at the cursor's indentation.
"""

from __future__ import annotations

from dataclasses import dataclass

_CLOSING = (")", "]", "}")
_GOES_ON = (":", "{", "(", "[", ",")
_TAB = 4
_BLANK_LINES = 2  # in a row, they end a block; one more is let pass before its first line


@dataclass(frozen=True)
class Place:
    """The text round a cursor.

    left, right: the halves of its line. below: the first few of the following lines that are not blank.
    All without line ends.
    """

    left: str
    right: str
    below: tuple[str, ...]

    @property
    def one_line(self) -> bool:
        return bool(self.right.strip())


def end_of_suggestion(text: str, place: Place) -> int | None:
    """How much of ``text`` (line ends "\\n") is the suggestion; None while its end is not in sight.

    The answer for a text never changes when more is written after it.
    """
    if place.one_line:
        end = text.find("\n")
        if end < 0:
            return None
        # A line of its own, meant to stand above this one: without its line end it would run into it.
        return end if place.left.strip() else 0
    return _end_of_block(text, place)


def _end_of_block(text: str, place: Place) -> int | None:
    begun = bool(place.left.strip())
    base = _indentation(place.left) if begun or place.left else None
    opened: bool | None = None  # is the line after the first deeper than it?
    end = blanks = start = 0
    lines = text.split("\n")
    for number, written in enumerate(lines):
        whole = number < len(lines) - 1
        line = place.left + written if number == 0 else written
        if not line.strip():
            blanks += whole
            if blanks == (_BLANK_LINES if end > 0 else _BLANK_LINES + 1):
                return end
        else:
            if whole and written.strip() and place.below and line.rstrip() == place.below[0].rstrip():
                return end
            indentation = _indentation(line)
            if base is None:
                base = indentation
            elif number > 0:
                if opened is None:
                    opened = indentation > base and (begun or base == 0)
                closes = line.lstrip().startswith(_CLOSING)
                if indentation < base or (opened and indentation == base and not closes):
                    return end
                if opened and indentation == base and whole and not line.rstrip().endswith(_GOES_ON):
                    return start + len(written)
            end, blanks = start + len(written), 0
        start += len(written) + 1
    return None


def _indentation(line: str) -> int:
    expanded = line.expandtabs(_TAB)
    return len(expanded) - len(expanded.lstrip())
