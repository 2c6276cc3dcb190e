"""The file's own indentation, which a suggestion follows whatever the model is used to."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TAB = 4  # columns
_NEAR = 200  # lines above and below that are looked at
_REACH = 200  # characters of each
_INDENTED = ("\t", "  ")
_AT_START = re.compile(r"(?:^|(?<=\n))[ \t]+")
_GOES_ON = re.compile(r"(?:^|(?<=\n)) +\Z")


def indentation(line: str) -> int:
    """How deep ``line`` is indented, in columns; a tab counts as four."""
    expanded = line.expandtabs(_TAB)
    return len(expanded) - len(expanded.lstrip())


@dataclass(frozen=True)
class Style:
    """How a file is indented: step is "\\t" or some spaces; "" if there is nothing to tell it by."""

    step: str

    def applied(self, text: str, left: str) -> str:
        """``text``, which continues the line ``left``, with its lines indented so.

        As ``text`` grows, the answer grows with it: spaces at its end that may become a tab are held back.
        """
        first = bool(left.strip())
        if self.step == "\t":
            text = text if first and "\n" not in text else _GOES_ON.sub("", text)
        elif not self.step or "\t" not in text:
            return text
        return _AT_START.sub(
            lambda found: found[0] if first and not found.start() else self._own(found[0]), text
        )

    def _own(self, blanks: str) -> str:
        if self.step != "\t":
            tabs = len(blanks) - len(blanks.lstrip("\t"))
            return self.step * tabs + blanks[tabs:]
        spaces = len(blanks) - len(blanks.lstrip(" "))
        tabs, rest = divmod(spaces, _TAB)
        # one space is not half a step, but what stands before the star of a comment's line
        return "\t" * (tabs + (rest > 1)) + " " * (rest == 1) + blanks[spaces:]


def style_near(lines: Sequence[str], line: int) -> Style:
    """How ``lines`` are indented round number ``line``, which counts most itself."""
    near = [lines[line], *lines[max(0, line - _NEAR) : line], *lines[line + 1 : line + 1 + _NEAR]]
    indented = [text[:_REACH] for text in near if text.startswith(_INDENTED)]
    if not indented:
        return Style("")
    telling = indented[:1] if near[0].startswith(_INDENTED) else indented
    if 2 * sum(text.startswith("\t") for text in telling) > len(telling):
        return Style("\t")
    widths = [len(text) - len(text.lstrip(" ")) for text in indented if text.startswith(" ") and text.strip()]
    return Style(" " * min(widths, default=_TAB))
