"""How often the oracle's greedy token is the draft's first choice, and how often among its first four.

That is what a tree of guesses lives on: each node gets the draft's four best tokens as children (see
`engine.stages.Draft`), and the walk goes on where the oracle's own choice is one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from model_setup.predictions import Predictions
from model_setup.windows import Window

WIDTH = 4


@dataclass(frozen=True)
class Recall:
    """top1, top4: shares, 0 to 1, of the ``places`` that were judged."""

    top1: float
    top4: float
    places: int

    def __str__(self) -> str:
        return f"{100 * self.top1:.1f} % first, {100 * self.top4:.1f} % among four, of {self.places:,} places"

    @classmethod
    def of(cls, answers: Iterable[tuple[Tensor, Tensor]]) -> Recall:
        """answers: of each window, the draft's best tokens [n, WIDTH], the best first, and the oracle's
        [n]."""
        first = among = places = 0
        for guesses, greedy in answers:
            hits = guesses == greedy[:, None]
            first += int(hits[:, 0].sum())
            among += int(hits.any(dim=1).sum())
            places += len(greedy)
        return cls(first / max(1, places), among / max(1, places), places)

    def better_than(self, other: Recall) -> bool:
        """By the four, and where these are even by the first."""
        return (self.top4, self.top1) > (other.top4, other.top1)


@dataclass(frozen=True)
class Example:
    """A window and what the oracle says of it; None: it was not asked."""

    window: Window
    predictions: Predictions | None
