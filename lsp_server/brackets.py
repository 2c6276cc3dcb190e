"""Which brackets and long strings are open, as far as can be told without knowing the language."""

from __future__ import annotations

import re

PAIRS = {")": "(", "]": "[", "}": "{"}

_TELLING = re.compile(
    r"'''|\"\"\"|"  # long strings, which may go on over line ends
    r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`|"  # others, whole; a lone quote says nothing
    r"(?:^|\s)#(?:\s.*|$)|"  # a comment, but not C's #include or JavaScript's #private
    r"[()\[\]{}]"
)


class Brackets:
    """Reads lines. open: the brackets that are open, the innermost last. quote: of the long string it is in.

    unmatched: how many closing brackets had no opening one.
    """

    def __init__(self) -> None:
        self.open: list[str] = []
        self.quote = ""
        self.unmatched = 0

    def read(self, line: str) -> None:
        at = 0
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
        if sign in ("'''", '"""'):
            self.quote = sign
        elif sign in PAIRS.values():
            self.open.append(sign)
        elif sign in PAIRS:
            if self.open and self.open[-1] == PAIRS[sign]:
                self.open.pop()
            else:
                self.unmatched += 1
