"""From logits to a token: one processed distribution, and noise that does not depend on the tree.

Temperature, top-k and top-p are applied first and give a distribution p ('standardized sampling',
Leviathan et al. 2022, 2.2). A token is drawn from it as argmax(log p + G) with Gumbel noise G (Gumbel-max),
where G is a function of (seed, absolute position, token id) alone. So the token after a given text is the
same whatever was guessed, and drafts that use the same noise are accepted more often (after Daliri et al.
2024, arXiv 2408.07978).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import DraftlineError

Logits = NDArray[np.float32]

_LEAST = 2.0**-53  # of the largest probability: smaller ones vanish in float64 sums
_NUCLEUS = 1024  # tokens sorted at first for top_p
_BLOCK = 256  # of whose values first only the largest is looked at
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Distribution:
    """A law of the next token: ids [support] int64, rising; p [support] float64, summing to 1."""

    ids: NDArray[np.int64]
    p: NDArray[np.float64]

    def probability(self, token: int) -> float:
        at = int(np.searchsorted(self.ids, token))
        return float(self.p[at]) if at < len(self.ids) and self.ids[at] == token else 0.0

    def at(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """The probabilities of the tokens ``ids``."""
        places = np.minimum(np.searchsorted(self.ids, ids), len(self.ids) - 1)
        return np.where(self.ids[places] == ids, self.p[places], 0.0)

    def overlap(self, other: Distribution) -> float:
        """sum min(p, q): the chance that a draw from one is accepted for the other (Leviathan 2022, 3.5)."""
        return float(np.minimum(self.p, other.at(self.ids)).sum())


class Row:
    """The logits [vocab] of what follows one token, and the questions asked of them before any sampling."""

    def __init__(self, logits: Logits) -> None:
        self._logits = logits

    @property
    def logits(self) -> Logits:
        return self._logits

    def best(self) -> int:
        """The likeliest token, the first of equals, here and everywhere.

        Raises:
            DraftlineError: the logits are not finite, so the model's weights are damaged.
        """
        return _best(self._logits)

    def likeliest(self, k: int) -> list[tuple[int, float]]:
        """The ``k`` likeliest of the tokens that are possible at all, with their probabilities.

        Raises:
            DraftlineError: as `best`.
        """
        _best(self._logits)
        ids = _likeliest(self._logits, k)
        ids = ids[self._logits[ids] > -np.inf]
        return list(zip(ids.tolist(), _shares(self._logits, ids), strict=True))


class Sampler:
    """Draws tokens as one request wants them."""

    def __init__(self, temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0) -> None:
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.seed = seed

    def distribution(self, logits: Logits) -> Distribution:
        """Process logits [vocab] into the law that tokens are drawn from; greedy is one-hot.

        Raises:
            DraftlineError: the logits are not finite, so the model's weights are damaged.
        """
        best = _best(logits)
        if self.temperature == 0:
            return Distribution(np.array([best]), np.array([1.0]))
        with np.errstate(over="ignore"):  # at temperatures next to 0 all but the best are -inf
            scaled = (logits.astype(np.float64) - float(logits[best])) / self.temperature
        ids = np.flatnonzero(scaled >= np.log(_LEAST))
        if self.top_k and len(ids) > self.top_k:
            ids = np.sort(ids[_likeliest(scaled[ids], self.top_k)])
        p = np.exp(scaled[ids])
        p /= p.sum()
        if self.top_p < 1:
            kept = np.sort(_nucleus(p, self.top_p))
            ids, p = ids[kept], p[kept] / p[kept].sum()
        return Distribution(ids, p)

    def draw(self, law: Distribution, position: int, stream: int = 0) -> int:
        """The token of ``law`` at absolute ``position``. Draws in different streams are independent."""
        if len(law.ids) == 1:
            return int(law.ids[0])
        with np.errstate(divide="ignore"):
            return int(law.ids[np.argmax(np.log(law.p) + self.noise(position, law.ids, stream))])

    def choose(self, row: Row, position: int) -> int:
        """The token that follows at absolute ``position``."""
        return row.best() if self.temperature == 0 else self.draw(self.distribution(row.logits), position)

    def likeliest(self, row: Row, position: int, k: int) -> list[tuple[int, float]]:
        """The ``k`` tokens that `choose` most likely picks for similar logits, with their probability here.

        The first is `choose`'s own: the same noise is used. The probability is the softmax of what is
        compared, noise included.

        Raises:
            DraftlineError: the logits are not finite, so the model's weights are damaged.
        """
        if self.temperature == 0:
            return row.likeliest(k)
        law = self.distribution(row.logits)
        with np.errstate(divide="ignore"):
            values = np.log(law.p) + self.noise(position, law.ids)
        best = _likeliest(values, k)
        return list(zip(law.ids[best].tolist(), _shares(values, best), strict=True))

    def uniform(self, position: int, stream: int) -> float:
        """A number in (0, 1) for this position, independent of the noise of other streams."""
        return float(_uniform(self._key(position, stream), np.zeros(1, dtype=np.int64))[0])

    def noise(self, position: int, ids: NDArray[np.int64], stream: int = 0) -> NDArray[np.float64]:
        """Gumbel noise of the tokens ``ids`` at ``position``."""
        noise: NDArray[np.float64] = -np.log(-np.log(_uniform(self._key(position, stream), ids)))
        return noise

    def _key(self, position: int, stream: int) -> int:
        return _mix(_mix(_mix(self.seed) + position) + stream)


def _mix(x: int) -> int:
    """SplitMix64's step and output (Steele, Lea and Flood 2014) on a Python integer."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _uniform(key: int, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """SplitMix64 as a counter-based generator: element ids[i] of the stream that starts at ``key``."""
    x = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return ((x >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def _best(logits: Logits) -> int:
    """The likeliest token: the first of equals, here and everywhere."""
    best = int(logits.argmax())
    if not np.isfinite(logits[best]):
        raise DraftlineError("The model computes values that are not numbers; fetch it again.")
    return best


def _likeliest(values: NDArray[np.float32] | NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Where the k largest values are, largest first; of equals the first."""
    k = min(k, len(values))
    largest = np.maximum.reduceat(values, np.arange(0, len(values), _BLOCK))
    among = largest if k <= len(largest) else values  # k of these are at least the k-th of them
    least = np.partition(among, len(among) - k)[len(among) - k]
    candidates = np.flatnonzero(values >= least)
    ranked: NDArray[np.int64] = candidates[np.lexsort((candidates, -values[candidates]))]
    return ranked[:k]


def _shares(values: NDArray[np.float32] | NDArray[np.float64], at: NDArray[np.int64]) -> list[float]:
    """The softmax of ``values`` at the indices ``at``."""
    weights = np.exp(values - values.max())
    shares: list[float] = (weights[at] / weights.sum(dtype=np.float64)).tolist()
    return shares


def _nucleus(p: NDArray[np.float64], top_p: float) -> NDArray[np.int64]:
    """Indices of the fewest likeliest tokens whose probabilities reach ``top_p`` together."""
    for size in (min(_NUCLEUS, len(p)), len(p)):
        ranked = _likeliest(p, size)
        reached = np.cumsum(p[ranked])
        if reached[-1] >= top_p or size == len(p):
            break
    return ranked[: int(np.searchsorted(reached, top_p)) + 1]
