from __future__ import annotations

import random

from tests.benchmarks.steady import BLOCK, Block, run, verdict, wishes
from tests.lsp_server.scripted_engine import ScriptedEngine


def test_growth_counts_from_the_end_of_the_first_block():
    blocks = [Block(9.0, 100.0), *[Block(1.0, 130.0)] * 4, *[Block(1.5, 131.0)] * 3]
    assert verdict(blocks) == (31.0, 1.5)


def test_lengths_are_random_and_every_tenth_request_is_cancelled():
    block = wishes(range(5000), random.Random(1))
    assert len(block) == BLOCK
    assert len({len(wish.prompt) for wish in block}) > 30
    assert {wish.tokens for wish in block} == set(range(1, 9))
    assert sum(wish.cancelled for wish in block) == BLOCK // 10


def test_every_block_is_the_same_requests_in_another_order():
    engine = ScriptedEngine(lambda *parts: "some text", tokens_per_cycle=2)
    shown = []
    assert len(run(engine, 3, lambda number, block: shown.append(number))) == 3
    assert shown == [0, 1, 2]
    first, second, third = (engine.prompts[start : start + BLOCK] for start in (0, BLOCK, 2 * BLOCK))
    assert sorted(first) == sorted(second) == sorted(third)
    assert first != second
