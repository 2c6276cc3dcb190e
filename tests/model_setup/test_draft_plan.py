"""What is foretold before a draft is made: its size, and whether it pays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cost_model import StepTimes
from engine.errors import DraftlineError
from engine.placement import Placement
from model_setup import draft_plan as planning
from model_setup.carve import read_size
from model_setup.draft_plan import CPU_TIMES, GPU_TIMES, LEAST_GAIN, draft_plan, expected_gain
from tests.engine.tiny_models import write_model


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 40}
    return write_model(tmp_path_factory.mktemp("models") / "oracle", **sizes)


def test_a_draft_is_to_be_carved_where_no_sibling_is_installed(oracle):
    plan = draft_plan(oracle, "cpu")
    assert (plan.device, plan.kind, plan.start, plan.seconds) == ("cpu", "carved", None, 1200)
    assert plan.oracle_parameters == read_size(oracle).whole
    assert 10 < plan.oracle_parameters / plan.parameters < 22
    assert 0 < plan.layers < 40


def test_a_sibling_is_taken_if_one_is_there(oracle, tmp_path, monkeypatch):
    small = write_model(tmp_path / "small", hidden_size=32, intermediate_size=48)
    monkeypatch.setattr(planning, "find_sibling", lambda *_: small)
    plan = draft_plan(oracle, "cpu")
    assert (plan.kind, plan.start, plan.layers, plan.tokens) == ("sibling", small, 2, 260)
    assert plan.parameters == read_size(small).whole


@pytest.mark.parametrize("times", [CPU_TIMES, GPU_TIMES, StepTimes((1, 16), (1.0, 16.0))])
def test_it_pays_where_the_cost_model_says_so_and_the_sentence_says_the_same(oracle, times):
    plan = draft_plan(oracle, "cpu", times)
    assert plan.gain == expected_gain(plan.parameters / plan.oracle_parameters, times)
    assert plan.pays == (plan.gain >= LEAST_GAIN)
    assert f"{plan.gain:.2f} times" in plan.why
    assert "\n" not in plan.why


@given(st.floats(0.01, 1), st.floats(0.01, 1))
def test_the_smaller_the_draft_the_larger_the_gain(first, second):
    smaller, larger = sorted((first, second))
    assert expected_gain(smaller, GPU_TIMES) >= expected_gain(larger, GPU_TIMES)


def test_on_a_gpu_a_draft_is_always_trained(oracle, monkeypatch):
    monkeypatch.setattr(planning, "placements", lambda *_: [Placement("cuda", "bf16")])
    plan = draft_plan(oracle)
    assert (plan.device, plan.seconds, plan.pays) == ("cuda", 480, True)


def test_rows_that_cost_as_much_as_passes_leave_nothing_to_gain():
    assert expected_gain(0.05, StepTimes((1, 64), (1.0, 64.0))) == 1


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(DraftlineError):
        draft_plan(tmp_path)
