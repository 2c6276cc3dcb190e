from __future__ import annotations

from functools import partial
from unittest import mock

import pytest

from engine import SamplingParams
from model_setup.benchmark_prompts import Prompt
from model_setup.journal import Journal
from tests.benchmarks import exactness
from tests.benchmarks.exactness import compare, decode_once, first_difference
from tests.lsp_server.scripted_engine import ScriptedEngine

PROMPT = Prompt("a", [97], [97])
STAGED = SamplingParams(max_tokens=6)
PLAIN = SamplingParams(max_tokens=6, mode="plain")


def test_the_first_difference_may_be_an_end():
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 2], [1, 3]) == 1
    assert first_difference([1, 2, 3], [1, 2]) == 2


def test_a_stopped_run_goes_on_unless_the_engine_is_another(tmp_path):
    engine, output = ScriptedEngine(lambda *parts: "abcdefghi"), tmp_path / "out.jsonl"
    first = decode_once(engine, Journal(output), {"weights": "int8"}, PROMPT, STAGED)
    assert bytes(first.tokens) == b"abcdef"
    assert [params.max_tokens for params in engine.asked] == [1, 6], (
        "the prompt is read before the clock runs"
    )

    with output.open("a", encoding="utf-8") as file:
        file.write('{"settings": {"killed in mid-')
    assert decode_once(engine, Journal(output), {"weights": "int8"}, PROMPT, STAGED) == first
    assert len(engine.asked) == 2
    for weights, params, prompt in (
        ("fp32", STAGED, PROMPT),
        ("int8", PLAIN, PROMPT),
        ("int8", STAGED, PROMPT._replace(ids=[98])),
    ):
        asked = len(engine.asked)
        decode_once(engine, Journal(output), {"weights": weights}, prompt, params)
        assert len(engine.asked) == asked + 2


@pytest.mark.parametrize(("staged", "differing"), [("abc", 0), ("abd", 1)])
def test_a_text_that_differs_is_counted_and_printed_with_its_place(capsys, staged, differing):
    engine = ScriptedEngine(lambda *parts: staged if engine.asked[-1].mode == "staged" else "abc")
    once = partial(decode_once, engine, Journal(None), {})
    with mock.patch.object(exactness, "top_two_gap", return_value=0.5):
        totals = compare(engine, once, [(PROMPT, [STAGED])])
    assert {mode: total.differing for mode, total in totals.items()} == {"plain": 0, "staged": differing}
    printed = capsys.readouterr().out
    assert ("token 2 is [100], plain [99]; gap 0.5" in printed) == bool(differing)
