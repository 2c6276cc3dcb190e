"""How large a tree pays: step times by row count against the chance that each guess is right.

A cycle with n guesses takes ``time(n + 1)`` and yields one token plus the sum of the guesses' chances
(the expectation of the accepted path: a node is on it with the probability of its score). The best
tree of n guesses is the n likeliest of them, so only n is to be found, down to no tree at all.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

_TEXT_STEP = 64  # tokens: a finer one tells no more


@dataclass(frozen=True)
class StepTimes:
    """Measured seconds of one forward pass by its number of rows; straight lines between.

    text: how many tokens were in the cache. growth: for each of ``rows``, the seconds that one token more
    adds, for each row attends to it; empty where that was not measured.
    """

    rows: tuple[int, ...]
    seconds: tuple[float, ...]
    text: int = 0
    growth: tuple[float, ...] = ()
    _known: dict[int, float] = field(default_factory=dict, compare=False, repr=False)
    _behind: dict[int, StepTimes] = field(default_factory=dict, compare=False, repr=False)

    def behind(self, text: int) -> StepTimes:
        """The times with so many tokens in the cache, to within a few; behind fewer than were measured never
        less than half, lest a growth measured on a busy machine make them nothing."""
        if not self.growth:
            return self
        step = text // _TEXT_STEP
        known = self._behind.get(step)
        if known is None:
            more = step * _TEXT_STEP - self.text
            seconds = (
                max(here / 2, here + more * each)
                for here, each in zip(self.seconds, self.growth, strict=True)
            )
            known = self._behind[step] = StepTimes(self.rows, tuple(seconds))
        return known

    def __call__(self, rows: int) -> float:
        known = self._known.get(rows)
        if known is None:
            known = self._known[rows] = self._between(rows)
        return known

    def _between(self, rows: int) -> float:
        right = min(max(bisect.bisect_left(self.rows, rows), 1), len(self.rows) - 1)
        low, high = self.rows[right - 1], self.rows[right]
        share = (rows - low) / (high - low)
        seconds = self.seconds[right - 1] + share * (self.seconds[right] - self.seconds[right - 1])
        # on a busy machine the last may have been measured as quicker than the one before
        return max(seconds, self.seconds[right]) if rows > high else seconds


def best_size(scores: Sequence[float], times: StepTimes) -> int:
    """The number of guesses that yields the most tokens per second; a tie goes to the smaller tree.

    scores: chances of the guesses, best first.
    """
    return BestSize(times, scores).best


class BestSize:
    """`best_size` while the guesses come in, best first.

    best: the number that yields most so far; rate: what it yields, in expected tokens a second.
    """

    def __init__(self, times: StepTimes, scores: Iterable[float] = (), spent: float = 0.0) -> None:
        """scores: of guesses that are there already, in any order. spent: the seconds that they took."""
        self._times = times
        self._spent = spent
        self._count = 0
        self._expected = 1.0
        self.rate = 1.0 / (spent + times(1))
        self.best = 0
        for score in sorted(scores, reverse=True):
            self.add(score)

    def add(self, score: float) -> None:
        """One more guess with this chance."""
        self._count += 1
        self._expected += score
        rate = self._expected / (self._spent + self._times(self._count + 1))
        if rate > self.rate:
            self.best, self.rate = self._count, rate

    def could_grow(self, score: float, budget: int) -> bool:
        """Whether up to ``budget`` more guesses, none better than ``score``, could yield more."""
        return any(
            self._expected + more * score > self.rate * (self._spent + self._times(self._count + more + 1))
            for more in range(1, budget + 1)
        )


class AcceptanceStatistics:
    """How often a guess was right where it could be seen, by features of the guess.

    A feature is any hashable value (source, rank, bucket of probability ...). The estimate starts at
    the prior that comes with the question and moves to what was observed.
    """

    PRIOR_WEIGHT = 8.0  # observations that a prior counts as

    def __init__(self) -> None:
        self._seen: dict[object, list[float]] = {}

    def estimate(self, feature: object, prior: float) -> float:
        """The chance that a guess with this feature is the oracle's token."""
        hits, tries = self._seen.get(feature, (0.0, 0.0))
        return (hits + self.PRIOR_WEIGHT * prior) / (tries + self.PRIOR_WEIGHT)

    def observe(self, feature: object, accepted: bool) -> None:
        counts = self._seen.setdefault(feature, [0.0, 0.0])
        counts[0] += accepted
        counts[1] += 1.0


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens a cycle of standard speculative decoding yields on average (Leviathan et al. 2022, equation 1).

    alpha: acceptance rate. gamma: guesses per cycle.
    """
    return gamma + 1.0 if alpha >= 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def improvement_factor(alpha: float, gamma: int, c: float, check: float = 1.0) -> float:
    """How many times faster than plain (theorem 3.8). c: a guess's time over the oracle's step.

    check: the time of checking all guesses over a step's; the theorem assumes that they are the same.
    """
    return expected_tokens(alpha, gamma) / (gamma * c + check)


def operations_factor(alpha: float, gamma: int, c_hat: float) -> float:
    """How many times plain decoding's operations (theorem 3.11). c_hat: a guess's over a step's."""
    return (gamma * c_hat + gamma + 1) / expected_tokens(alpha, gamma)


def best_gamma(alpha: float, c: float, most: int = 64, times: StepTimes | None = None) -> int:
    """The gamma of the largest improvement factor (3.5); 0 where none pays (corollary 3.9: alpha <= c).

    times: of the oracle's pass by its rows, where more rows take longer.
    """

    def factor(gamma: int) -> float:
        check = 1.0 if times is None else times(gamma + 1) / times(1)
        return improvement_factor(alpha, gamma, c, check)

    return max(range(most + 1), key=factor)
