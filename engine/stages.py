"""The stages of the chain draft2 -> draft -> oracle, behind one small interface.

A stage proposes (grows a tree of guesses below it) and advances (takes note of what was emitted). The
oracle holds the stage below it, lets it propose, checks the whole tree in one forward pass and decides.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Sequence
from typing import Protocol

import torch

from engine.acceptance import walk
from engine.cost_model import AcceptanceStatistics, StepTimes, best_size
from engine.lookup import Lookup, State
from engine.ngram import NgramTable
from engine.request import CancelToken
from engine.transformer import Transformer
from engine.tree import ROOT, TokenTree

TYPICAL_TEXT = 256  # committed tokens when step times are measured
PREFILL_ROWS = (
    128  # prompt tokens a forward pass: enough to be bound by arithmetic, few enough to cancel soon
)


class Stage(Protocol):
    """Something that guesses what the stage above it would say."""

    def begin(self, context: Sequence[int]) -> None:
        """A new request; the new tokens continue ``context``."""

    def propose(self, tree: TokenTree, budget: int) -> None:
        """Add up to ``budget`` nodes below those of ``tree``, best first."""

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        """``tokens`` were emitted: those of the accepted nodes but the root, then the bonus."""


class Draft2:
    """The proposers of negligible cost: the trigram table and the lookup in the request's own text.

    Nodes are added best first by the product of their chances along the path; equal tokens of both
    proposers are one node, which the better of the two ranks. Chances are learned by feature, and scaled by
    the text's mood: how many of the last guesses were right, against how many were expected to be. What is
    asked at the root is compared with what came even where no guess was worth a row, so trust comes back.
    """

    CHILDREN = 4  # candidates asked of each proposer at each node
    SMALLEST_CHANCE = 0.02  # below this no row is worth its place, whatever the machine
    MEMORY = 0.9  # what an observation of the text's mood still counts one token later
    MOOD_PRIOR = 2.0  # guesses as good as expected that are taken for granted

    def __init__(self, table: NgramTable | None) -> None:
        self._table = table
        self._statistics = AcceptanceStatistics()
        self._lookup = Lookup()
        self._last: list[int] = []
        self._asked: dict[int, dict[int, tuple[float, object]]] = {}
        self._right = 0.0
        self._expected = 0.0

    def begin(self, context: Sequence[int]) -> None:
        self._lookup = Lookup(context)
        self._last = list(context[-2:])

    def propose(self, tree: TokenTree, budget: int) -> None:
        self._asked = {}
        mood = min(1.0, (self._right + self.MOOD_PRIOR) / (self._expected + self.MOOD_PRIOR))
        states: dict[int, State] = {ROOT: self._lookup.state}
        contexts: dict[int, list[int]] = {ROOT: self._last}
        order = 0  # breaks ties, so that the heap never compares further
        heap: list[tuple[float, int, int, int]] = []  # (-chance, order, parent, token)

        def ask(node: int) -> None:
            nonlocal order
            candidates = self._candidates(contexts[node], states[node])
            self._asked[node] = candidates
            for token, (chance, _) in candidates.items():
                score = mood * chance * tree.scores[node]
                if score >= self.SMALLEST_CHANCE:
                    heapq.heappush(heap, (-score, order, node, token))
                    order += 1

        ask(ROOT)
        for _ in range(budget):
            if not heap:
                break
            negative, _, parent, token = heapq.heappop(heap)
            node = tree.add(parent, token, -negative, "draft2")
            states[node] = self._lookup.after(states[parent], token)
            contexts[node] = [*contexts[parent][-1:], token]
            ask(node)

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


class Oracle:
    """The stage whose distribution is preserved: one forward pass checks the tree of the stage below."""

    def __init__(self, transformer: Transformer, capacity: int) -> None:
        self.transformer = transformer
        self.capacity = capacity
        self._cache = transformer.new_cache(capacity)
        self._text: list[int] = []  # the tokens whose keys and values are in the cache

    def prefill(self, prompt: Sequence[int], cancel: CancelToken) -> bool:
        """Bring all of ``prompt`` but its last token, the first root, into the cache.

        What the cache already holds from the request before is kept. Returns False if cancelled.
        """
        wanted = list(prompt[:-1])
        shared = 0
        while shared < min(len(wanted), len(self._text)) and wanted[shared] == self._text[shared]:
            shared += 1
        self._cache.truncate(shared)
        del self._text[shared:]
        for start in range(shared, len(wanted), PREFILL_ROWS):
            if cancel.cancelled:
                return False
            chunk = wanted[start : start + PREFILL_ROWS]
            rows = len(chunk)
            positions = torch.arange(start, start + rows)
            visible = torch.ones(rows, rows, dtype=torch.bool).tril()
            self.transformer.forward(torch.tensor(chunk), positions, self._cache, visible)
            self._cache.commit(range(start, start + rows))
            self._text += chunk
        return True

    def measure(self, rows: Sequence[int], repeats: int = 3) -> StepTimes:
        """Time a forward pass of each row count behind a text of typical length; the fastest counts."""
        self._cache.truncate(0)
        self._text = []
        self._cache.length = min(TYPICAL_TEXT, self.capacity - max(rows))
        best = []
        for count in rows:
            tokens = torch.zeros(count, dtype=torch.int64)
            visible = torch.ones(count, count, dtype=torch.bool).tril() if count > 1 else None
            seconds = []
            for _ in range(repeats):
                started = time.perf_counter()
                hidden = self.transformer.forward(tokens, tokens, self._cache, visible)
                self.transformer.logits(hidden).argmax(dim=1)
                seconds.append(time.perf_counter() - started)
            best.append(min(seconds))
        self._cache.truncate(0)
        return StepTimes(tuple(rows), tuple(best))

    def verify(self, tree: TokenTree) -> tuple[list[int], list[int]]:
        """Check all nodes in one pass; returns the accepted nodes (the root first) and the tokens to emit.

        The accepted slots move to the front of the cache; the bonus token, the next root, is not in it.
        """
        start = self._cache.length
        positions = torch.tensor(tree.depths) + start
        visible = torch.from_numpy(tree.ancestor_mask()) if len(tree) > 1 else None
        hidden = self.transformer.forward(torch.tensor(tree.tokens), positions, self._cache, visible)
        choices = self.transformer.logits(hidden).argmax(dim=1).tolist()
        accepted, bonus = walk(tree, choices)
        self._cache.commit([start + node for node in accepted])
        self._text += [tree.tokens[node] for node in accepted]
        return accepted, [*(tree.tokens[node] for node in accepted[1:]), bonus]


def propose_what_pays(stage: Stage, tree: TokenTree, times: StepTimes, limit: int) -> None:
    """Let ``stage`` grow the tree, then keep as many of its nodes as the cost model says pay."""
    stage.propose(tree, limit)
    tree.cut(1 + best_size(tree.scores[1:], times))
