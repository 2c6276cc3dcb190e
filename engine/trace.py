"""What decoding did and what it took, summed over cycles: the accounts behind both papers' tables.

Per token and stage: bytes read (Spector & Ré 2023, table 1), arithmetic intensity, time; where the tokens
came from (their figure 3); how often guesses were right, alpha, as observed and as E[sum min(p, q)]
(Leviathan et al. 2022, corollary 3.6).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch

from engine.reader import Reader
from engine.request import CancelToken, Cycle, Origin, Spent
from engine.sampling import Sampler
from engine.stages import Request
from engine.standard import Approximation

_NUMBERS = ("cycles", "tokens", "rows", "seconds", "expected", "guessed")
_COUNTS = ("origins", "tried")


class Trace:
    """The sums over the cycles that were added.

    guessed: places with a checked guess. tried: of these, places with one by the stage. origins: tokens by
    the stage that proposed them first.
    """

    def __init__(self) -> None:
        self.cycles = 0
        self.tokens = 0
        self.rows = 0
        self.seconds = 0.0
        self.expected = 0.0
        self.origins: Counter[Origin] = Counter()
        self.spent: dict[Origin, Spent] = {}
        self.tried: Counter[Origin] = Counter()
        self.guessed = 0

    def add(self, cycle: Cycle) -> None:
        self.cycles += 1
        self.tokens += len(cycle.tokens)
        self.rows += cycle.rows
        self.seconds += cycle.seconds
        self.expected += cycle.expected
        self.origins.update(cycle.origins)
        for stage, spent in cycle.spent.items():
            self.spent[stage] = self.spent.get(stage, Spent()) + spent
        for tried in cycle.tried:
            self.guessed += bool(tried)
            self.tried.update(tried)

    def merge(self, other: Trace) -> None:
        """Add the cycles of ``other``."""
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _COUNTS:
            getattr(self, name).update(getattr(other, name))
        for stage, spent in other.spent.items():
            self.spent[stage] = self.spent.get(stage, Spent()) + spent

    def to_json(self) -> dict[str, Any]:
        """All sums, as what JSON can hold."""
        spent = {stage: asdict(one) for stage, one in self.spent.items()}
        return {
            **{name: getattr(self, name) for name in _NUMBERS},
            **{name: dict(getattr(self, name)) for name in _COUNTS},
            "spent": spent,
        }

    @classmethod
    def from_json(cls, sums: Mapping[str, Any]) -> Trace:
        """The trace that `to_json` gave ``sums`` of."""
        trace = cls()
        for name in _NUMBERS:
            setattr(trace, name, sums[name])
        for name in _COUNTS:
            getattr(trace, name).update(sums[name])
        trace.spent = {stage: Spent(**one) for stage, one in sums["spent"].items()}
        return trace

    @property
    def tokens_per_cycle(self) -> float:
        return self.tokens / max(1, self.cycles)

    @property
    def expected_per_cycle(self) -> float:
        """What the guesses' chances promised: above `tokens_per_cycle` the chances are too rosy."""
        return self.expected / max(1, self.cycles)

    def alpha(self, source: Origin | None = None) -> float:
        """The share of the places with a checked guess (of ``source``) where it (one of its) was right.

        In a chain this is the acceptance rate as observed; in a tree several guesses stand at a place. A
        token is put down to the stage that first proposed it.
        """
        if source is None:
            return (self.origins["draft2"] + self.origins["draft"]) / max(1, self.guessed)
        return self.origins[source] / max(1, self.tried[source])

    def bytes_per_token(self, stage: Origin) -> float:
        return self._of(stage).bytes / max(1, self.tokens)

    def intensity(self, stage: Origin) -> float:
        """Operations per byte read: low where memory is the limit, as in decoding token by token."""
        spent = self._of(stage)
        return spent.operations / max(1, spent.bytes)

    def seconds_per_token(self, stage: Origin) -> float:
        return self._of(stage).seconds / max(1, self.tokens)

    def other_seconds(self) -> float:
        """Seconds per cycle that no stage used: sampling, the walk, moving cache slots."""
        used = sum(spent.seconds for spent in self.spent.values())
        return (self.seconds - used) / max(1, self.cycles)

    def c(self, stage: Origin) -> float:
        """The time of one of the stage's guesses or passes over that of an oracle's pass (3.1)."""
        below, oracle = self._of(stage), self._of("oracle")
        count = below.rows if stage == "draft2" else below.passes
        each = below.seconds / max(1, count)
        return each / (oracle.seconds / max(1, oracle.passes)) if oracle.seconds else 0.0

    def _of(self, stage: Origin) -> Spent:
        return self.spent.get(stage, Spent())


@torch.inference_mode()
def teacher_forced_alpha(
    oracle: Reader, approximation: Approximation, text: Sequence[int], start: int, sampler: Sampler
) -> float:
    """E[sum over tokens of min(p, q)] at the positions of ``text`` from ``start`` on (at least 1).

    p and q are the processed laws of the oracle and the approximation after the text's own tokens, so the
    mean depends on the text alone, and not on which guesses happened to be made.
    """
    approximation.begin(Request(text[:start], text[:start], sampler))
    oracle.read(text[: start - 1], CancelToken())
    total = 0.0
    for position in range(start, len(text)):
        p = sampler.distribution(oracle.rows(text[position - 1 : position], [position - 1], None)[0].logits)
        oracle.commit([position - 1], text[position - 1 : position])
        q = sampler.distribution(approximation.logits(text[position - 1 : position]))
        total += p.overlap(q)
        approximation.advance(text[position : position + 1])
    return total / (len(text) - start)
