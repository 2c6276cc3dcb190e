"""Standard speculative decoding as published: the baseline to beat.

A chain of gamma tokens is sampled from an approximation q of the oracle's law p. Each is accepted with
probability min(1, p/q); at the first that is not, a token is drawn from norm(max(0, p - q)), and where all
are, the bonus token from p (Leviathan et al. 2022, algorithm 1; Chen et al. 2023). With lenience l, l q
stands for q (Leviathan, appendix A.5): more is accepted, and the law is no longer p.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from engine.cost_model import AcceptanceStatistics, StepTimes, best_gamma
from engine.lookup import Lookup
from engine.ngram import NgramTable
from engine.reader import Reader
from engine.request import CancelToken, Origin, Spent
from engine.sampling import Distribution, Logits, Row, Sampler
from engine.stages import Request
from engine.tree import ROOT, TokenTree

# streams of noise, so that drawing a guess, accepting it and drawing its replacement are independent
_GUESS, _ACCEPT, _REPLACE = 1, 2, 3


class Approximation(Protocol):
    """Any cheap law of the next token. spent: what its passes used, if it makes any."""

    origin: Origin

    @property
    def spent(self) -> Spent | None: ...

    def begin(self, request: Request) -> bool:
        """Start a request; False if it was cancelled meanwhile."""

    def logits(self, path: Sequence[int]) -> Logits:
        """[vocab] log-probabilities, up to a constant, of what follows the text and then ``path``.

        Asked with growing paths within a cycle, the first holding just the root.
        """

    def advance(self, tokens: Sequence[int]) -> None:
        """``tokens`` were emitted."""


@dataclass
class Experience:
    """What is known of an approximation: whether its guesses were accepted, and how long they took."""

    PRIOR_ALPHA = 0.6

    statistics: AcceptanceStatistics = field(default_factory=AcceptanceStatistics)
    spent: Spent = field(default_factory=Spent)

    @property
    def alpha(self) -> float:
        """The acceptance rate (Leviathan 2022, definition 3.1, expected over the text)."""
        return self.statistics.estimate("guess", self.PRIOR_ALPHA)

    @property
    def seconds(self) -> float:
        """Of one guess; 0 before the first."""
        return self.spent.seconds / max(1, self.spent.rows)


class SampledChain:
    """The stage that proposes gamma tokens sampled from an approximation, one below the other."""

    def __init__(
        self,
        approximation: Approximation,
        gamma: int | None,
        lenience: float,
        experience: Experience | None = None,
    ) -> None:
        """gamma: None for the one that pays most by what is known, at least 1 so that more gets known."""
        self._approximation = approximation
        self._gamma = gamma
        self._lenience = lenience
        self._experience = experience or Experience()
        self._sampler = Sampler()
        self._length = 0
        self._laws: dict[int, Distribution] = {}  # node -> the law that its child was drawn from

    def begin(self, request: Request) -> bool:
        self._sampler = request.sampler
        self._length = len(request.prompt)
        return self._approximation.begin(request)

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        started = time.perf_counter()
        self._laws = {}
        node, path = ROOT, [tree.tokens[ROOT]]
        known = self._experience
        alpha = known.alpha
        gamma = self._gamma or max(1, best_gamma(alpha, known.seconds / times(1), budget, times))
        for depth in range(min(gamma, budget)):
            law = self._sampler.distribution(self._approximation.logits(path))
            token = self._sampler.draw(law, self._length + depth, _GUESS)
            self._laws[node] = law
            node = tree.add(node, token, alpha * tree.scores[node], self._approximation.origin)
            path.append(token)
        known.spent += Spent(1, len(path) - 1, seconds=time.perf_counter() - started)

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        for _ in accepted[1:]:
            self._experience.statistics.observe("guess", True)
        if tree.children[accepted[-1]]:
            self._experience.statistics.observe("guess", False)
        self._length += len(tokens)
        self._approximation.advance(tokens)

    def spent(self) -> dict[Origin, Spent]:
        return {self._approximation.origin: self._approximation.spent or self._experience.spent}

    def rule(self, tree: TokenTree, node: int, row: Row, position: int) -> tuple[int, bool]:
        """Accept the guess below ``node`` with probability min(1, p/q), or replace it (see `Rule`)."""
        law = self._sampler.distribution(row.logits)
        if not tree.children[node]:
            return self._sampler.draw(law, position), True
        (guess,) = tree.children[node]
        approximate = self._laws[node]
        chance = law.probability(guess) / (self._lenience * approximate.probability(guess))
        if self._sampler.uniform(position, _ACCEPT) < chance:
            return guess, True
        return self._sampler.draw(residual(law, approximate, self._lenience), position, _REPLACE), False


def residual(law: Distribution, approximate: Distribution, lenience: float = 1.0) -> Distribution:
    """norm(max(0, p - l q)): what the accepted guesses leave out of p (Leviathan 2022, 2.3).

    Never empty where a guess was refused: q exceeds p there, so p exceeds q elsewhere.
    """
    left = np.maximum(law.p - lenience * approximate.at(law.ids), 0.0)
    kept = left > 0
    if not kept.any():  # rounding alone: the laws agree
        return law
    return Distribution(law.ids[kept], left[kept] / left[kept].sum())


class ModelApproximation:
    """A small transformer: one pass a guess."""

    origin: Origin = "draft"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._truth: list[int] = []

    @property
    def spent(self) -> Spent:
        return self._reader.spent

    def begin(self, request: Request) -> bool:
        self._truth = list(request.prompt)
        return self._reader.read(self._truth[:-1], request.cancel)

    def logits(self, path: Sequence[int]) -> Logits:
        text = [*self._truth[:-1], *path]
        self._reader.read(text[:-1], CancelToken())
        return self._reader.rows(text[-1:], [len(text) - 1], None)[0].logits

    def advance(self, tokens: Sequence[int]) -> None:
        self._truth += tokens


class NgramApproximation:
    """The table of n-grams, or a lower order of it: 3 trigram, 2 bigram, 1 unigram."""

    origin: Origin = "draft2"
    spent = None

    def __init__(self, table: NgramTable, order: int) -> None:
        self._table = table
        self._context = order - 1
        self._text: list[int] = []

    def begin(self, request: Request) -> bool:
        self._text = list(request.context)
        return True

    def logits(self, path: Sequence[int]) -> Logits:
        text = [*self._text, *path[1:]]
        with np.errstate(divide="ignore"):
            return np.log(self._table.distribution(text[len(text) - self._context :])).astype(np.float32)

    def advance(self, tokens: Sequence[int]) -> None:
        self._text += tokens


class RandomApproximation:
    """Every token alike: the worst case, still accepted with probability 1/vocab (Leviathan 2022, 3.6)."""

    origin: Origin = "draft2"
    spent = None

    def __init__(self, vocab_size: int) -> None:
        self._logits = np.zeros(vocab_size, dtype=np.float32)

    def begin(self, request: Request) -> bool:
        return True

    def logits(self, path: Sequence[int]) -> Logits:
        return self._logits

    def advance(self, tokens: Sequence[int]) -> None:
        pass


class LookupApproximation:
    """What followed the same tokens before in the text: certain of it, or of nothing (any token alike)."""

    origin: Origin = "draft2"
    spent = None

    def __init__(self, vocab_size: int) -> None:
        self._vocab = vocab_size
        self._lookup = Lookup()

    def begin(self, request: Request) -> bool:
        self._lookup = Lookup(request.context)
        return True

    def logits(self, path: Sequence[int]) -> Logits:
        state = self._lookup.state
        for token in path[1:]:
            state = self._lookup.after(state, token)
        candidates = self._lookup.candidates(state, 1)
        logits = np.zeros(self._vocab, dtype=np.float32)
        if candidates:
            logits -= np.float32(np.inf)
            logits[candidates[0][0]] = 0.0
        return logits

    def advance(self, tokens: Sequence[int]) -> None:
        self._lookup.extend(tokens)
