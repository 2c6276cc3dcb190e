"""The loop: plain and staged decoding are settings of it, not copies."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from engine.cost_model import StepTimes
from engine.request import CancelToken, Cycle, Origin, SamplingParams
from engine.stages import Oracle, Stage, propose_what_pays
from engine.tree import TokenTree

MOST_GUESSES = 31


def decode(
    oracle: Oracle,
    below: Stage,
    times: StepTimes,
    prompt: Sequence[int],
    context: Sequence[int],
    params: SamplingParams,
    cancel: CancelToken,
) -> Iterator[Cycle]:
    """Yield what each cycle emits until a stop id, max_tokens or ``cancel``.

    context: what the guesses go by; its end is what the new tokens continue (the prompt, or in a
    fill-in-the-middle prompt the prefix).
    """
    staged = params.mode == "staged"
    if not oracle.prefill(prompt, cancel):
        return
    if staged:
        below.begin(context)
    root = prompt[-1]
    remaining = params.max_tokens
    while remaining > 0 and not cancel.cancelled:
        started = time.perf_counter()
        tree = TokenTree(root)
        if staged:
            propose_what_pays(below, tree, times, min(MOST_GUESSES, remaining - 1))
        accepted, tokens = oracle.verify(tree)
        if staged:
            below.advance(tree, accepted, tokens)
        root = tokens[-1]
        origins: list[Origin] = [*(tree.origins[node] for node in accepted[1:]), "oracle"]
        ended = False
        for index, token in enumerate(tokens):
            if token in params.stop_ids:
                tokens, origins, ended = tokens[:index], origins[:index], True
                break
        remaining -= len(tokens)
        yield Cycle(tokens, origins, len(tree), time.perf_counter() - started)
        if ended:
            return
