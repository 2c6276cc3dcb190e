"""Which brackets and long strings are open, as far as can be told without knowing the language."""

from __future__ import annotations

import re

_LONG = ("'''", '"""')
_DOCSTRING = re.compile(r"\s*[A-Za-z]{0,2}('''|\"\"\")")
PAIRS = {")": "(", "]": "[", "}": "{"}

_TELLING = re.compile(
    r"(?:[=(\[{,+%]|\breturn\b)\s*[A-Za-z]{0,2}(?:'''|\"\"\")|"  # a string that may go on over line ends
    r"'''|\"\"\"|"  # the same, or the end of one
    r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"  # others, whole; a lone quote says nothing
    r"(?:^|\s)#(?:\s.*|$)|"  # a comment, but not C's #include or JavaScript's #private
    r"[()\[\]{}]"
)


class Brackets:
    """Reads lines. open: the brackets that are open, the innermost last. quote: of the long string it is in.

    unmatched: how many closing brackets had no opening one. Whoever begins to read within a long string would
    take its end for a beginning, so only the value of something, and what follows a colon, is taken for one.
    """

    def __init__(self) -> None:
        self.open: list[str] = []
        self.quote = ""
        self.unmatched = 0
        self._behind_colon = False

    def read(self, line: str) -> None:
        at = 0
        if self._behind_colon and not self.quote and (docstring := _DOCSTRING.match(line)):
            at, self.quote = docstring.end(), docstring[1]
        self._behind_colon = line.rstrip().endswith(":")
        while at < len(line):
            if self.quote:
                end = line.find(self.quote, at)
                if end < 0:
                    return
                at, self.quote = end + len(self.quote), ""
            found = _TELLING.search(line, at)
            if found is None:
                return
            at = found.end()
            self._take(found[0])

    def _take(self, sign: str) -> None:
        if sign.endswith(_LONG):
            if not sign.startswith(_LONG):
                self._take(sign[0])
                self.quote = sign[-3:]
        elif sign in PAIRS.values():
            self.open.append(sign)
        elif sign in PAIRS:
            self.unmatched += not close(self.open, sign)


def close(opened: list[str], closing: str) -> bool:
    """Take off ``opened`` what ``closing`` closes and what was left open in it; False if it closes none."""
    opening = PAIRS[closing]
    if opening not in opened:
        return False
    while opened.pop() != opening:
        pass
    return True
