"""Requests one after the other, in every mode, with a draft and a table.

Each is answered as by a fresh engine, whatever came before it and wherever that was stopped or cancelled.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from engine import CancelToken, Engine, SamplingParams
from engine.checkpoint import load_checkpoint
from engine.cost_model import StepTimes
from engine.katz import write_table
from engine.placement import Placement
from tests.engine.tiny_models import SIZES, TOKENS, CancelAtLook, write_model

CONTEXT = SIZES["max_position_embeddings"]
SAMPLED = SamplingParams(12, temperature=0.9, seed=3)
BASE = [random.Random(0).randrange(TOKENS) for _ in range(80)]
ORDERS = {
    "the same again": [BASE, BASE],
    "a beginning of the last": [BASE, BASE[:30]],
    "more of the last": [BASE[:30], BASE],
    "different from the first token": [BASE, [1, *BASE[1:]]],
    "different in the middle": [BASE, [*BASE[:40], 1, *BASE[40:]]],
    "one token": [BASE, BASE[:1]],
    "one token, then more": [[2], BASE],
    "one token twice": [[2], [2]],
    "up to the end of the context": [BASE, (BASE * 3)[: CONTEXT - SAMPLED.max_tokens], BASE],
}
WAYS = {
    "plain": replace(SAMPLED, mode="plain"),
    "staged": SAMPLED,
    "staged, draft alone": replace(SAMPLED, guessers="draft"),
    "standard, draft": replace(SAMPLED, mode="standard", approximation="draft"),
    "standard, trigram": replace(SAMPLED, mode="standard", approximation="trigram"),
    "standard, lookup": replace(SAMPLED, mode="standard", approximation="lookup"),
}

Fresh = Callable[[], Engine]


@pytest.fixture(scope="module", params=["fp32", "int8"])
def fresh(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Fresh:
    """Makes engines that were asked nothing yet.

    The draft is the oracle, so that its guesses are accepted, and all guesses seem to pay.
    """
    folder = tmp_path_factory.mktemp("models")
    model = load_checkpoint(write_model(folder / "model"), request.param)
    table = folder / "table"
    write_table(table, [np.array(BASE * 3, dtype=np.uint32)], TOKENS, model.tokenizer.fingerprint)

    def engine() -> Engine:
        made = Engine("tiny", model, model, Placement("cpu", request.param))
        made._oracle.times = StepTimes((1, 32), (1.0, 1.0))
        made._draft_times = StepTimes((1, 32), (0.01, 0.01))
        made.use_table(table)
        return made

    return engine


def text(
    engine: Engine, prompt: list[int], params: SamplingParams, cancel: CancelToken | None = None
) -> list[int]:
    return [token for cycle in engine.generate(prompt, params, cancel) for token in cycle.tokens]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ORDERS)
def test_a_request_is_answered_as_by_a_fresh_engine(fresh: Fresh, order: str, way: str):
    *before, prompt = ORDERS[order]
    used = fresh()
    for earlier in before:
        assert len(text(used, earlier, WAYS[way])) == SAMPLED.max_tokens
    assert text(used, prompt, WAYS[way]) == text(fresh(), prompt, WAYS[way])


@pytest.mark.parametrize("way", ["staged", "standard, draft"])  # all stages are in these
def test_a_request_may_be_cancelled_at_every_look_at_the_token(fresh: Fresh, way: str):
    """Those while the prompt is read by the oracle, by the draft, and those between cycles."""
    prompt, params = (BASE * 2)[:140], WAYS[way]  # read in two parts
    other = [*prompt[:100], 8, 8]
    whole, others = text(fresh(), prompt, params), text(fresh(), other, params)
    used = fresh()
    lengths = []
    for looks in count():
        cancel = CancelAtLook(looks)
        begun = text(used, prompt, params, cancel)
        assert begun == whole[: len(begun)]
        assert text(used, other, params) == others
        lengths.append(len(begun))
        if cancel.looks >= 0:  # it was done before
            break
    assert lengths == sorted(lengths)
    assert lengths[:4] == [0, 0, 0, 0]
    assert lengths[-1] == len(whole)


@pytest.mark.parametrize("way", ["staged", "standard, draft"])
def test_a_stop_id_ends_the_text_wherever_it_comes_first(fresh: Fresh, way: str):
    """Also inside accepted guesses; the request after it is answered as if it had not been."""
    used, params = fresh(), WAYS[way]
    cycles = list(used.generate(BASE, params))
    assert max(len(cycle.tokens) for cycle in cycles) > 2
    whole, others = [token for cycle in cycles for token in cycle.tokens], text(fresh(), BASE[:50], params)
    for at, stop in enumerate(whole):
        if stop in whole[:at]:
            continue
        assert text(used, BASE, replace(params, stop_ids=(stop,))) == whole[:at]
        assert text(used, BASE[:50], params) == others
