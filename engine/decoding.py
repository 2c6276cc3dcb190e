"""The loop: plain, standard and staged decoding are settings of it, not copies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from engine.request import Cycle, Origin, SamplingParams, Spent
from engine.stages import Oracle, Request, Rule, Stage
from engine.tree import ROOT, TokenTree

MOST_GUESSES = 31


def decode(
    oracle: Oracle, below: Stage | None, rule: Rule, check_all: bool, request: Request, params: SamplingParams
) -> Iterator[Cycle]:
    """Yield what each cycle emits until a stop id, max_tokens or the request's cancellation.

    below: the stage that guesses; None decodes plainly. rule: how the oracle decides after each node.
    check_all: whether the oracle checks every guess, or those that the cost model says pay.
    """
    if not oracle.begin(request) or not (below is None or below.begin(request)):
        return
    root = request.prompt[-1]
    remaining = params.max_tokens
    spent = _spent(oracle, below)
    while remaining > 0 and not request.cancel.cancelled:
        started = time.perf_counter()
        tree = TokenTree(root, params.shape)
        limit = min(MOST_GUESSES, remaining - 1)
        if below is not None and limit > 0:
            below.propose(tree, limit, oracle.times_now)
        nodes = list(range(len(tree))) if check_all else oracle.choose_rows(tree, limit)
        checked = oracle.check(tree, nodes, rule)
        if below is not None:
            below.advance(tree, checked.accepted, checked.tokens)
        root = checked.tokens[-1]
        tokens = checked.tokens
        origins: list[Origin] = [tree.origins[node] for node in checked.accepted if node != ROOT]
        origins.append("oracle")
        end = next((at for at, token in enumerate(tokens) if token in params.stop_ids), len(tokens))
        remaining -= end
        before, spent = spent, _spent(oracle, below)
        yield Cycle(
            tokens[:end],
            origins[:end],
            checked.rows,
            time.perf_counter() - started,
            tried=_tried(tree, nodes, checked.accepted)[:end],
            expected=sum(tree.scores[node] for node in nodes),
            spent={stage: after - before[stage] for stage, after in spent.items()},
        )
        if end < len(tokens):
            return


def _spent(oracle: Oracle, below: Stage | None) -> dict[Origin, Spent]:
    return oracle.spent() if below is None else {**below.spent(), **oracle.spent()}


def _tried(tree: TokenTree, nodes: Sequence[int], accepted: Sequence[int]) -> list[frozenset[Origin]]:
    """For each node of the walk, the stages whose guesses below it were checked."""
    checked = set(nodes)
    return [
        frozenset(tree.origins[child] for child in tree.children[node].values() if child in checked)
        for node in accepted
    ]
