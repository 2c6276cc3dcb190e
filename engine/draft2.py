"""draft2: the proposers of negligible cost, a trigram table and a lookup in the request's own text."""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence

from engine.cost_model import AcceptanceStatistics
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

    def propose(self, tree: TokenTree, budget: int, worth: float) -> None:
        started = time.perf_counter()
        size = len(tree)
        self._grow(tree, budget)
        self._spent += Spent(1, len(tree) - size, seconds=time.perf_counter() - started)

    def _grow(self, tree: TokenTree, budget: int) -> None:
        mood = min(1.0, (self._right + self.MOOD_PRIOR) / (self._expected + self.MOOD_PRIOR))
        order = 0  # breaks ties, so that the heap never compares further
        heap: list[tuple[float, int, int, int]] = []  # (-score, order, parent, token)

        def ask(node: int) -> None:
            nonlocal order
            if node != ROOT:
                parent, token = tree.parents[node], tree.tokens[node]
                self._states[node] = self._lookup.after(self._states[parent], token)
                self._contexts[node] = [*self._contexts[parent][-1:], token]
            self._asked[node] = candidates = self._candidates(self._contexts[node], self._states[node])
            if tree.shape == "chain":
                best = max(candidates, key=lambda token: candidates[token][0], default=None)
                candidates = {} if best is None or tree.children[node] else {best: candidates[best]}
            for token, (chance, _) in candidates.items():
                score = mood * chance * tree.scores[node]
                if score >= SMALLEST_CHANCE and token not in tree.children[node]:
                    heapq.heappush(heap, (-score, order, node, token))
                    order += 1

        for node in range(len(tree)):
            if node not in self._asked:
                ask(node)
        for _ in range(budget):
            if not heap:
                break
            negative, _, parent, token = heapq.heappop(heap)
            ask(tree.add(parent, token, -negative, "draft2"))

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
