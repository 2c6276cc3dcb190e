"""draft2: the proposers of negligible cost, a trigram table and a lookup in the request's own text."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Sequence
from operator import itemgetter

from engine.cost_model import AcceptanceStatistics, BestSize, StepTimes
from engine.lookup import Lookup, State
from engine.ngram import NgramTable
from engine.request import Origin, Spent
from engine.stages import SMALLEST_CHANCE, Request
from engine.tree import ROOT, TokenTree


class Draft2:
    """The stage at the bottom of the chain.

    Nodes are added best first by the product of their chances along the path; equal tokens of both
    proposers are one node, which the better of the two ranks. Chances are learned by feature, and scaled by
    the text's mood: how many of the last guesses were right, against how many were expected to be. What is
    asked at the root is compared with what came even where no guess was worth a row, so trust comes back.
    """

    CHILDREN = 4  # candidates asked of each proposer at each node
    MEMORY = 0.9  # what an observation of the text's mood still counts one token later
    MOOD_PRIOR = 2.0  # guesses as good as expected that are taken for granted

    def __init__(self, table: NgramTable | None) -> None:
        self._table = table
        self._statistics = AcceptanceStatistics()
        self._lookup = Lookup()
        self._last: list[int] = []
        self._asked: dict[int, dict[int, tuple[float, object]]] = {}
        self._states: dict[int, State] = {}
        self._contexts: dict[int, list[int]] = {}
        self._right = 0.0
        self._expected = 0.0
        self._spent = Spent()

    def spent(self) -> dict[Origin, Spent]:
        return {"draft2": self._spent}

    def begin(self, request: Request) -> bool:
        self._lookup = Lookup(request.context)
        self._last = list(request.context[-2:])
        self._forget_cycle()
        return True

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        started = time.perf_counter()
        size = len(tree)
        self._grow(tree, budget, times)
        self._spent += Spent(1, len(tree) - size, seconds=time.perf_counter() - started)

    def _grow(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        mood = min(1.0, (self._right + self.MOOD_PRIOR) / (self._expected + self.MOOD_PRIOR))
        size = BestSize(times, tree.scores[1:])
        order = itertools.count()  # breaks ties, so that the heap never compares further
        # (-score, order, node, token): the child ``token`` of ``node``, or None: the node is to be asked,
        # which is put off until its children, whose scores are no better, could be the next to be added
        heap: list[tuple[float, int, int, int | None]] = []
        for node in range(len(tree)):
            if node not in self._asked:
                heapq.heappush(heap, (-tree.scores[node], next(order), node, None))
        while heap and budget > 0:
            negative, _, node, token = heapq.heappop(heap)
            if not size.could_grow(-negative, budget):
                return
            if token is None:
                for token, chance in self._ask(tree, node):
                    score = mood * chance * tree.scores[node]
                    if score >= SMALLEST_CHANCE and token not in tree.children[node]:
                        heapq.heappush(heap, (-score, next(order), node, token))
            else:
                child = tree.add(node, token, -negative, "draft2")
                size.add(-negative)
                budget -= 1
                heapq.heappush(heap, (negative, next(order), child, None))

    def _ask(self, tree: TokenTree, node: int) -> list[tuple[int, float]]:
        """The tokens that may follow ``node``, with chances; of a chain only the best, if it has none yet."""
        self._stand_at(tree, node)
        self._asked[node] = candidates = self._candidates(self._contexts[node], self._states[node])
        chances = [(token, chance) for token, (chance, _) in candidates.items()]
        if tree.shape == "chain":
            chances = [] if tree.children[node] else sorted(chances, key=itemgetter(1), reverse=True)[:1]
        return chances

    def _stand_at(self, tree: TokenTree, node: int) -> None:
        """Know the context and the lookup's state after ``node``."""
        if node not in self._states:
            parent, token = tree.parents[node], tree.tokens[node]
            self._stand_at(tree, parent)
            self._states[node] = self._lookup.after(self._states[parent], token)
            self._contexts[node] = [*self._contexts[parent][-1:], token]

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        for node, token in zip(accepted, tokens, strict=True):
            candidates = self._asked.get(node)
            if candidates is None:
                continue
            for guess, (_, feature) in candidates.items():
                self._statistics.observe(feature, guess == token)
            self._right = self.MEMORY * self._right + (token in candidates)
            self._expected = self.MEMORY * self._expected + sum(chance for chance, _ in candidates.values())
        self._lookup.extend(tokens)
        self._last = (self._last + list(tokens))[-2:]
        self._forget_cycle()

    def _forget_cycle(self) -> None:
        self._asked = {}
        self._states = {ROOT: self._lookup.state}
        self._contexts = {ROOT: self._last}

    def _candidates(self, context: Sequence[int], state: State) -> dict[int, tuple[float, object]]:
        """token -> (chance, the feature it was judged by)."""
        candidates: dict[int, tuple[float, object]] = {}
        found = self._lookup.candidates(state, self.CHILDREN)
        longest = found[0][2] if found else 0
        for rank, (token, count, length) in enumerate(found):
            feature: object = ("lookup", rank, min(length, 8), min(count, 3))
            prior = length / (length + 1.4) * (1.0, 0.1, 0.05, 0.03)[rank]
            candidates[token] = (self._statistics.estimate(feature, prior), feature)
        if self._table is not None:
            tokens, probabilities = self._table.top(context, self.CHILDREN)
            for rank, (token, probability) in enumerate(zip(tokens, probabilities, strict=True)):
                agreed = token in candidates
                feature = ("trigram", rank, int(probability * 10), min(longest, 3), agreed)
                prior = probability * (1.0 if agreed else (0.6, 0.25, 0.05, 0.01)[min(longest, 3)])
                chance = self._statistics.estimate(feature, prior)
                if not agreed or candidates[token][0] < chance:
                    candidates[token] = (chance, feature)
        return candidates
