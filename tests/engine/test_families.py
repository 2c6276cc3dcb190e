"""Every family, end to end: as oracle and as draft, up to the last place of its context."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.families import FAMILIES
from tests.engine.tiny_models import TOKENS, write_model

CONTEXT, DRAFTS_CONTEXT = 48, 40


@pytest.fixture(scope="module", params=[(family, kind) for family in FAMILIES for kind in ("fp32", "int8")])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """With a draft of the same family that was made for shorter texts, and guesses that seem to pay."""
    family, weights = request.param
    folder = tmp_path_factory.mktemp("models")
    oracle = write_model(folder / "oracle", family, max_position_embeddings=CONTEXT)
    sizes = {"max_position_embeddings": DRAFTS_CONTEXT, "num_hidden_layers": 1}
    engine = load(oracle, draft=write_model(folder / "draft", family, **sizes), weights=weights)
    engine._oracle.times = StepTimes((1, 32), (1.0, 1.0))
    return engine


def text(engine: Engine, prompt: list[int], mode: str, temperature: float = 0.0) -> list[int]:
    params = SamplingParams(CONTEXT - len(prompt), temperature, mode=mode, approximation="draft")
    return [token for cycle in engine.generate(prompt, params) for token in cycle.tokens]


@settings(max_examples=4)
@given(st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=46), st.sampled_from([0.0, 1.0]))
def test_guessing_changes_nothing(engine, prompt, temperature):
    plain = text(engine, prompt, "plain", temperature)
    assert len(plain) == CONTEXT - len(prompt)
    assert text(engine, prompt, "staged", temperature) == plain
    if temperature == 0:
        assert text(engine, prompt, "standard") == plain


def test_the_draft_reads_as_far_as_it_can(engine):
    prompt = list(range(DRAFTS_CONTEXT + 2))
    assert text(engine, prompt, "staged") == text(engine, prompt, "plain")


def test_the_families_of_the_table_are_those_of_the_readme():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (row,) = [line for line in readme.splitlines() if "architectures, as a model directory" in line]
    named = row.lower().replace("-", "").replace(" ", "")
    assert all(family.replace("_", "") in named for family in FAMILIES)
