"""The stages of the chain draft2 -> draft -> oracle, behind one small interface.

The same idea twice (Spector & Ré 2023, 3.2): a stage lets the stage below it guess, checks all guesses in
one forward pass, and goes on from there. The draft does so to make a better tree, as often as it pays; the
oracle does so once, and decides. A longer chain is one more `Draft` in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch

from engine.acceptance import walk
from engine.cost_model import AcceptanceStatistics, BestSize, StepTimes, best_size
from engine.reader import Reader
from engine.request import CancelToken, Origin, Spent
from engine.sampling import Row, Sampler
from engine.tree import ROOT, TokenTree

SMALLEST_CHANCE = 0.02  # a guess below this is not worth its place in a tree, whatever the machine


@dataclass(frozen=True)
class Request:
    """What a stage is told at the start: the prompt; the context, whose end the new tokens continue (the
    prompt, or in a fill-in-the-middle prompt the prefix); how tokens are drawn."""

    prompt: Sequence[int]
    context: Sequence[int]
    sampler: Sampler = field(default_factory=Sampler)
    cancel: CancelToken = field(default_factory=CancelToken)


class Stage(Protocol):
    """Something that guesses what the stage above it would say."""

    def begin(self, request: Request) -> bool:
        """Start a request; False if it was cancelled meanwhile."""

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        """Add up to about ``budget`` nodes to ``tree``, whose root follows the text so far.

        times: of the pass that the stage above will check them with. May be called again on the same tree
        after others have added to it, and then goes on below what is new.
        """

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        """``tokens`` were emitted: those of the accepted nodes but the root, then the bonus."""

    def spent(self) -> dict[Origin, Spent]:
        """What this stage and those below it have used since the start."""


class Draft:
    """A transformer that guesses, with a stage below it that guesses for it."""

    CHILDREN = 4  # tokens looked at below each node that was read
    ROWS = 16  # nodes read in one pass at most
    NEXT_PRIOR = 0.6  # the chance that the draft adds the right token where it was not there, at first
    MARGIN = 1.05  # what a pass must promise: it also takes time that was not measured, to judge logits
    LONGEST_REST = 16  # cycles without a pass, at most, before the draft is given another try ...
    TRIES = 0.03  # ... but more if tries would take more than so much of the time above

    def __init__(self, reader: Reader, times: StepTimes, below: Stage | None) -> None:
        self._reader = reader
        self._times = times
        self._below = below
        self._sampler = Sampler()
        self._statistics = AcceptanceStatistics()
        self._truth: list[int] = []  # prompt and output: the reader may lag behind it
        self._slots: dict[int, int] = {}  # node -> its slot, for the nodes read in this cycle
        self._spent = 0.0  # seconds that reading them took, by the step times
        self._guessed: dict[int, dict[int, tuple[object, ...]]] = {}  # node -> {token: what it was judged by}
        self._guessed_below: dict[int, set[int]] = {}  # node -> the tokens that were there before
        self._rest = self._rested = 0

    def begin(self, request: Request) -> bool:
        self._sampler = request.sampler
        self._truth = list(request.prompt)
        self._forget_cycle()
        if not self._reader.read(self._truth[:-1], request.cancel):
            return False
        return self._below is None or self._below.begin(request)

    def propose(self, tree: TokenTree, budget: int, times: StepTimes) -> None:
        while True:
            if self._below is not None:
                self._below.propose(tree, budget, self._times_now)
            unread = self._unread(tree, budget)
            if not unread or not self._pays(tree, unread, budget, times):
                return
            self._read(tree, unread)

    def advance(self, tree: TokenTree, accepted: Sequence[int], tokens: Sequence[int]) -> None:
        for node, token in zip(accepted, tokens, strict=True):
            features = self._guessed.get(node)
            if features is None:
                continue
            for guess, judged_by in features.items():
                for feature in judged_by:
                    self._statistics.observe(feature, guess == token)
            if token not in self._guessed_below[node]:
                self._statistics.observe("next", tree.children[node].get(token) in accepted)
        read = [node for node in accepted if node in self._slots]
        if read:
            self._reader.commit([self._slots[node] for node in read], [tree.tokens[node] for node in read])
        self._truth += tokens
        self._forget_cycle()
        if self._below is not None:
            self._below.advance(tree, accepted, tokens)

    def spent(self) -> dict[Origin, Spent]:
        below = {} if self._below is None else self._below.spent()
        return {**below, "draft": self._reader.spent + below.get("draft", Spent())}

    def _forget_cycle(self) -> None:
        self._slots = {}
        self._spent = 0.0
        self._guessed = {}
        self._guessed_below = {}

    def _unread(self, tree: TokenTree, budget: int) -> list[int]:
        """The best nodes that were not read yet; their parents are read, or among them."""
        unread = [node for node in range(len(tree)) if node not in self._slots]
        return tree.best(min(self.ROWS, budget + 1 - len(self._slots)), among=unread)

    def _pays(self, tree: TokenTree, unread: Sequence[int], budget: int, times: StepTimes) -> bool:
        """Whether the stage above gets more tokens a second out of the tree if these nodes are read first.

        The walk ends at one node; a token is gained if that is one of these and its next is added here. That
        one is a row more above.
        """
        right = self._statistics.estimate("next", self.NEXT_PRIOR)
        added = [
            right * (tree.scores[node] - sum(tree.scores[child] for child in tree.children[node].values()))
            for node in unread
        ]
        scores = [tree.scores[node] for node in tree.best(1 + budget)[1:]]
        cost = self._cost(unread)
        now = BestSize(times, scores, self._spent)
        then = BestSize(times, sorted([*scores, *added], reverse=True)[:budget], self._spent + cost)
        if then.rate > self.MARGIN * now.rate:
            self._rest = self._rested = 0
            return True
        if ROOT in unread:  # no pass at all in this cycle: rest, and try again now and then
            self._rested += 1
            if self._rested > self._rest:
                longest = max(self.LONGEST_REST, int(cost / (self.TRIES * times(1))))
                self._rest, self._rested = min(2 * self._rest + 1, longest), 0
                return True
        return False

    def _cost(self, nodes: Sequence[int]) -> float:
        """Seconds that reading these nodes takes, and before the root what was emitted lately."""
        emitted = len(self._emitted) if ROOT in nodes else 0
        return self._times_now(len(nodes) + emitted)

    @property
    def _emitted(self) -> list[int]:
        """The tokens emitted since the last pass, all but the root."""
        return self._truth[len(self._reader.text) : -1]

    def _read(self, tree: TokenTree, nodes: Sequence[int]) -> None:
        """One pass over ``nodes``: judge the guesses below them and add the draft's own."""
        reader = self._reader
        self._spent += self._cost(nodes)
        if len(self._emitted) > self.ROWS:  # after a long rest: without the head, which reads nothing there
            reader.read(self._truth[:-1], CancelToken())
        emitted = self._emitted if ROOT in nodes else []
        columns = [*self._slots, *nodes]
        start, before = reader.cache.length, len(emitted)
        visible = np.tri(before + len(nodes), before + len(columns), dtype=np.bool_)
        visible[before:, :before] = True
        visible[before:, before:] = tree.ancestor_mask(nodes, columns)
        rows = reader.rows(
            [*emitted, *(tree.tokens[node] for node in nodes)],
            [*range(start, start + before), *(start + before + tree.depths[node] for node in nodes)],
            torch.from_numpy(visible),
        )
        reader.commit(range(start, start + before), emitted)
        for node in nodes:
            self._slots[node] = reader.cache.length + len(self._slots)
        for node, row in zip(nodes, rows[before:], strict=True):
            self._judge(tree, node, row)

    @property
    def _times_now(self) -> StepTimes:
        """The times behind the text that is in the cache."""
        return self._times.behind(self._reader.cache.length)

    def _judge(self, tree: TokenTree, node: int, row: Row) -> None:
        """Score what stands below ``node`` anew by the draft's logits there, and add the draft's own guesses.

        A guess's chance is learned from the draft's word, and that estimate is the prior of a finer one, from
        its word and that of the stage below, as in MacKay & Peto (1995). So the draft's word counts where
        there is little to go by, and the guesses of a table that is right more often keep their chances.
        """
        position = len(self._truth) + tree.depths[node]
        width = 1 if tree.shape == "chain" else self.CHILDREN
        guesses = self._sampler.likeliest(row, position, width)
        ranked = {token: (rank, probability) for rank, (token, probability) in enumerate(guesses)}
        features: dict[int, tuple[object, ...]] = {}
        self._guessed_below[node] = set(tree.children[node])
        for token in (*ranked, *(token for token in tree.children[node] if token not in ranked)):
            rank, probability = ranked.get(token, (self.CHILDREN, 0.0))
            child = tree.children[node].get(token)
            below = -1 if child is None else int(5 * tree.chance(child))
            coarse = ("draft", rank, int(10 * probability))
            fine = ("both", min(rank, 2), token in ranked, int(5 * probability), below)
            features[token] = coarse, fine
            prior = probability if token in ranked else SMALLEST_CHANCE
            chance = self._statistics.estimate(fine, self._statistics.estimate(coarse, prior))
            score = tree.scores[node] * chance
            if child is not None:
                tree.rescore(child, score)
            elif score >= SMALLEST_CHANCE:
                tree.add(node, token, score, "draft")
        self._guessed[node] = features


@dataclass(frozen=True)
class Checked:
    """One pass of the oracle: the accepted nodes (the root first), the tokens to emit, and its rows."""

    accepted: list[int]
    tokens: list[int]
    rows: int


Rule = Callable[[TokenTree, int, Row, int], tuple[int, bool]]
"""(tree, node, its logits, position of the next token) -> that token, and whether a guess may match it."""


class Oracle:
    """The stage whose distribution is preserved: one forward pass checks the tree of the stage below."""

    def __init__(self, reader: Reader, times: StepTimes) -> None:
        self._reader = reader
        self.times = times

    def begin(self, request: Request) -> bool:
        """Bring the prompt but its last token, the first root, into the cache; False if cancelled."""
        return self._reader.read(request.prompt[:-1], request.cancel)

    def choose_rows(self, tree: TokenTree, limit: int) -> list[int]:
        """The nodes worth checking, the root first: those that yield the most expected tokens per second."""
        _, *nodes = tree.best(1 + limit)
        ranked = sorted((tree.scores[node] for node in nodes), reverse=True)
        return tree.best(1 + best_size(ranked, self.times_now))

    @property
    def times_now(self) -> StepTimes:
        """The times behind the text that is in the cache."""
        return self.times.behind(self._reader.cache.length)

    def spent(self) -> dict[Origin, Spent]:
        """What this stage alone has used since the start."""
        return {"oracle": self._reader.spent}

    def check(self, tree: TokenTree, nodes: Sequence[int], rule: Rule) -> Checked:
        """Check ``nodes`` of the tree in one pass and walk down it.

        The accepted slots move to the front of the cache; the bonus token, the next root, is not in it.
        """
        reader = self._reader
        start = reader.cache.length
        rows = reader.rows(
            [tree.tokens[node] for node in nodes],
            [start + tree.depths[node] for node in nodes],
            torch.from_numpy(tree.ancestor_mask(nodes, nodes)) if len(nodes) > 1 else None,
        )
        at = {node: row for row, node in enumerate(nodes)}

        def decide(node: int) -> tuple[int, bool]:
            return rule(tree, node, rows[at[node]], start + tree.depths[node] + 1)

        accepted, tokens = walk(tree, at.keys(), decide)
        reader.commit([start + at[node] for node in accepted], [tree.tokens[node] for node in accepted])
        return Checked(accepted, tokens, len(nodes))


def coupled(sampler: Sampler) -> Rule:
    """The oracle's own draw at each node: exact for any tree and any proposer."""
    return lambda tree, node, row, position: (sampler.choose(row, position), True)
