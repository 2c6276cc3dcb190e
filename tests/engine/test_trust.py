"""Guessing is never much slower than not guessing: trust is lost where guesses fail, and comes back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from engine.acceptance import walk
from engine.cost_model import StepTimes, best_size
from engine.draft2 import Draft2
from engine.katz import write_table
from engine.ngram import NgramTable
from engine.stages import Request
from engine.tree import TokenTree

# of a 0.5B model in int8 and in fp32 on two cores, in ms
INT8 = StepTimes((1, 2, 4, 8, 16, 32), (33.0, 33.5, 35.0, 42.0, 64.0, 110.0))
FP32 = StepTimes((1, 8, 16, 32), (140.0, 140.0, 225.0, 390.0))
TOKENS = 5000


def milliseconds(stage: Draft2, text: Sequence[int], times: StepTimes) -> list[float]:
    """What the oracle's passes take to write ``text`` after its first token: one element a token."""
    spent: list[float] = []
    at = 1
    while at < len(text):
        tree = TokenTree(text[at - 1])
        stage.propose(tree, min(31, len(text) - at - 1), times)
        ranked = sorted(tree.scores[1:], reverse=True)
        nodes = tree.best(1 + best_size(ranked, times))
        start = at

        def decide(node: int, tree: TokenTree = tree, start: int = start) -> tuple[int, bool]:
            return text[min(start + tree.depths[node], len(text) - 1)], True

        accepted, tokens = walk(tree, set(nodes), decide)
        stage.advance(tree, accepted, tokens)
        spent += [times(len(nodes)) / len(tokens)] * len(tokens)
        at += len(tokens)
    return spent[: len(text) - 1]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> NgramTable:
    """Of text where each token is often followed by the same one."""
    rng = random.Random(0)
    text = [rng.randrange(300)]
    while len(text) < 100_000:
        text.append((7 * text[-1] + 3) % 300 if rng.random() < 0.7 else rng.randrange(300))
    path = Path(tmp_path_factory.mktemp("table")) / "table"
    write_table(path, [np.array(text, dtype=np.uint32)], TOKENS, "f" * 64)
    return NgramTable(path, "f" * 64)


@pytest.mark.parametrize("times", [INT8, FP32], ids=["int8", "fp32"])
@pytest.mark.parametrize("choices", [20, 300, TOKENS])
@pytest.mark.parametrize(("requests", "length"), [(10, 48), (1, 400)])
def test_where_no_guess_can_be_right_staged_is_as_fast_as_plain(table, times, choices, requests, length):
    """Random tokens: of few choices, so that the text seems to repeat itself; known to the table; of many."""
    stage, rng = Draft2(table), random.Random(choices)
    spent: list[float] = []
    for _ in range(requests):
        prompt = [rng.randrange(choices) for _ in range(100)]
        stage.begin(Request(prompt, prompt))
        answer = [rng.randrange(choices) for _ in range(length)]
        spent += milliseconds(stage, [prompt[-1], *answer], times)
    assert sum(spent) < 1.05 * len(spent) * times(1)


@pytest.mark.parametrize("times", [INT8, FP32], ids=["int8", "fp32"])
def test_trust_comes_back_with_text_that_can_be_foreseen(table, times):
    rng = random.Random(1)
    line = [rng.randrange(TOKENS) for _ in range(20)]
    noise = [rng.randrange(300) for _ in range(300)]
    stage = Draft2(table)
    stage.begin(Request(line, line))
    spent = milliseconds(stage, [line[-1], *noise, *line * 5], times)
    before, after = spent[200:300], spent[-80:]  # the line's first repetition is needed to know it
    assert sum(before) / 100 > 0.9 * times(1)
    assert sum(after) / 80 < 0.4 * times(1)
