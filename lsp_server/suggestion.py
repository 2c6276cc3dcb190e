"""What the editor shows, and how it came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.request import Origin


@dataclass(frozen=True)
class Suggestion:
    """What to insert at the cursor, and how it came about.

    text: with the document's own line ends; empty when there is nothing worth showing. It is a beginning
    of the joined ``tokens`` but for its line ends.
    tokens: the text of every token up to the one that ended the suggestion ("" for one that ends inside
    a character, whose text comes with the next). origins: the stage that first proposed each.
    cycles: those that emitted a token. seconds: what the engine took, the prompt's reading not counted.
    cut: the model was stopped before the suggestion's end came in sight, so there might be more to it.
    short: it was shown less of the text than it could take, because somebody waited.
    """

    text: str
    tokens: Sequence[str]
    origins: Sequence[Origin]
    cycles: int
    seconds: float
    cut: bool = False
    short: bool = False

    @property
    def tokens_per_cycle(self) -> float:
        return len(self.tokens) / self.cycles if self.cycles else 0.0

    @property
    def tokens_per_second(self) -> float:
        return len(self.tokens) / self.seconds if self.seconds else 0.0

    def after(self, typed: str) -> Suggestion:
        """What is left of it where the user has typed its beginning ``typed``."""
        if not typed:
            return self
        behind = len(typed.replace("\r\n", "\n"))  # the tokens' line ends are one character each
        first = 0
        while first < len(self.tokens) and behind >= len(self.tokens[first]):
            behind -= len(self.tokens[first])
            first += 1
        tokens = list(self.tokens[first:])
        if tokens:
            tokens[0] = tokens[0][behind:]
        return replace(self, text=self.text[len(typed) :], tokens=tokens, origins=self.origins[first:])
