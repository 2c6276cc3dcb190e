"""The accounts add up, and say what the papers' definitions say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.cost_model import StepTimes
from engine.engine import Engine, load
from engine.reader import Reader
from engine.request import Cycle, SamplingParams, Spent
from engine.sampling import Distribution, Sampler
from engine.standard import ModelApproximation, RandomApproximation
from engine.trace import Trace, teacher_forced_alpha
from tests.engine.tiny_models import SIZES, TOKENS, load_tiny, write_model

PROMPT = [10, 20, 30, 10, 20, 30, 10, 20]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("large"), seed=1)


@pytest.fixture(scope="module")
def engine(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    small = write_model(tmp_path_factory.mktemp("small"), seed=2, num_hidden_layers=1)
    return load(folder, draft=small, weights="fp32")


def trace_of(engine: Engine, context: list[int] = PROMPT, **params) -> Trace:
    trace = Trace()
    settings = SamplingParams(**{"max_tokens": 60, **params})
    for cycle in engine.generate(PROMPT, settings, context_ids=context):
        trace.add(cycle)
    return trace


def test_plain_decoding_reads_all_weights_and_the_text_before_it_for_each_token(engine):
    trace = trace_of(engine, mode="plain", max_tokens=1)
    hidden, inner, layers = SIZES["hidden_size"], SIZES["intermediate_size"], SIZES["num_hidden_layers"]
    head_dim = hidden // SIZES["num_attention_heads"]
    kv = SIZES["num_key_value_heads"] * head_dim
    block = hidden * (hidden + 2 * kv) + hidden * hidden + 3 * hidden * inner
    weights = layers * block + TOKENS * hidden
    cache = 2 * layers * kv * len(PROMPT)
    assert trace.bytes_per_token("oracle") == 4 * weights + 8 * cache
    attention = 2 * layers * hidden * len(PROMPT)
    assert trace.spent["oracle"].operations == 2 * (weights + attention)
    assert trace.intensity("oracle") == pytest.approx(0.5, rel=0.05)  # two operations for four bytes
    assert (trace.tokens_per_cycle, trace.expected_per_cycle, trace.alpha()) == (1, 1, 0)
    assert trace.origins == {"oracle": 1}


@pytest.mark.parametrize("mode", ["plain", "staged"])
def test_every_cycle_is_one_pass_of_the_oracle_and_every_token_has_an_origin(engine, mode):
    trace = trace_of(engine, mode=mode)
    assert trace.tokens == trace.origins.total() == 60
    assert trace.spent["oracle"].passes == trace.cycles
    assert trace.spent["oracle"].rows == trace.rows


def test_a_stage_that_was_not_asked_has_spent_nothing(engine):
    alone = trace_of(engine, guessers="draft2").spent
    assert set(alone) == {"draft2", "oracle"}
    assert alone["draft2"].passes > 0
    assert set(trace_of(engine, guessers="draft").spent) == {"draft", "oracle"}


def test_the_stages_time_is_part_of_the_whole(engine):
    trace = trace_of(engine)
    assert trace.other_seconds() > 0
    parts = sum(trace.seconds_per_token(stage) for stage in ("draft2", "draft", "oracle"))
    assert 0 < parts < trace.seconds / trace.tokens


def test_text_that_was_foreseen_costs_fewer_bytes_a_token(engine, monkeypatch):
    """Table 1 of Spector & Ré 2023: staged decoding reads the oracle's weights less often."""
    text = [token for cycle in engine.generate(PROMPT, SamplingParams(60)) for token in cycle.tokens]
    monkeypatch.setattr(engine._oracle, "times", StepTimes((1, 64), (1.0, 1.5)))
    context = [*PROMPT, *text, *PROMPT]  # so the lookup knows how it goes on
    staged, plain = (trace_of(engine, context, mode=mode, guessers="draft2") for mode in ("staged", "plain"))
    assert staged.tokens_per_cycle > 2
    assert staged.bytes_per_token("oracle") < plain.bytes_per_token("oracle") / 2
    assert staged.intensity("oracle") > plain.intensity("oracle")


def test_alpha_counts_the_places_that_had_guesses():
    draft2, both, none = frozenset({"draft2"}), frozenset({"draft2", "draft"}), frozenset()
    trace = Trace()
    trace.add(Cycle([1, 2, 3], ["draft2", "draft", "oracle"], 4, 0.1, [draft2, both, none], 2.5))
    trace.add(Cycle([4], ["oracle"], 2, 0.1, [both], 1.5))
    assert trace.alpha() == pytest.approx(2 / 3)
    assert trace.alpha("draft2") == pytest.approx(1 / 3)
    assert trace.alpha("draft") == pytest.approx(1 / 2)
    assert (trace.tokens_per_cycle, trace.expected_per_cycle) == (2, 2)


def test_c_is_the_time_of_a_draft_pass_over_an_oracle_pass():
    trace = Trace()
    spent = {"oracle": Spent(1, 6, seconds=0.05), "draft": Spent(4, 5, seconds=0.02)}
    trace.add(Cycle([1], ["oracle"], 6, 0.1, [frozenset()], 1.0, spent))
    assert trace.c("draft") == pytest.approx(0.1)


laws = st.lists(st.floats(0.01, 1.0), min_size=5, max_size=5).map(
    lambda weights: Distribution(np.arange(5), np.array(weights) / sum(weights))
)


@given(laws, laws)
def test_the_overlap_is_one_less_the_laws_distance(p, q):
    """Leviathan 2022, definition 3.2 and lemma 3.3: sum min(p, q) = 1 - half the sum of |p - q|."""
    assert p.overlap(q) == pytest.approx(1 - np.abs(p.p - q.p).sum() / 2)
    assert p.overlap(q) == pytest.approx(q.overlap(p))


def test_laws_of_different_tokens_do_not_overlap():
    p, q = Distribution(np.array([3]), np.ones(1)), Distribution(np.array([2, 9]), np.array([0.5, 0.5]))
    assert p.overlap(q) == q.overlap(p) == 0


def test_a_model_approximates_itself_with_alpha_one(folder):
    model = load_tiny(folder)
    approximation = ModelApproximation(Reader(model, 100))
    alpha = teacher_forced_alpha(Reader(model, 100), approximation, list(range(40)), 5, Sampler(1.0))
    assert alpha == pytest.approx(1.0)


@torch.inference_mode()
def test_the_worst_approximation_has_the_alpha_of_its_definition(folder):
    model = load_tiny(folder)
    text = [(7 * i * i) % TOKENS for i in range(30)]
    alpha = teacher_forced_alpha(Reader(model, 100), RandomApproximation(TOKENS), text, 1, Sampler(1.0))
    reader = Reader(model, 100)
    visible = torch.ones(29, 29, dtype=torch.bool).tril()
    logits = np.stack([row.logits for row in reader.rows(text[:-1], range(29), visible)]).astype(np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    assert alpha == pytest.approx(np.minimum(p, 1 / TOKENS).sum(axis=1).mean(), rel=1e-6)


def test_observed_and_teacher_forced_alpha_agree(engine, folder):
    """Over the engine's own samples, within four deviations of a coin that falls 600 times."""
    observed, forced, places = 0.0, 0.0, 0
    for seed in range(12):
        prompt = [seed + 1, 5, 9]
        settings = {
            "mode": "standard",
            "approximation": "draft",
            "gamma": 1,
            "temperature": 1.0,
            "seed": seed,
        }
        text, trace = list(prompt), Trace()
        for cycle in engine.generate(prompt, SamplingParams(max_tokens=100, **settings)):
            trace.add(cycle)
            text += cycle.tokens
        observed += trace.alpha() * trace.cycles
        places += trace.cycles
        approximation = ModelApproximation(engine._draft)
        forced += teacher_forced_alpha(Reader(load_tiny(folder), 200), approximation, text, 3, Sampler(1.0))
    alpha = forced / 12
    assert 0.02 < alpha < 0.98
    assert observed / places == pytest.approx(alpha, abs=4 * (alpha * (1 - alpha) / places) ** 0.5)


def cycle(tokens: int, seconds: float, stages: tuple[str, ...]) -> Cycle:
    spent = {stage: Spent(1, 2, 3, 4, seconds / 2) for stage in stages}
    tried = [frozenset({"draft2"})] * (tokens - 1) + [frozenset()]
    return Cycle([7] * tokens, ["draft2"] * (tokens - 1) + ["oracle"], 3, seconds, tried, 1.5, spent)


def test_traces_of_parts_make_the_trace_of_the_whole_and_survive_json():
    cycles = [
        cycle(2, 0.5, ("draft2", "oracle")),
        cycle(1, 0.25, ("oracle",)),
        cycle(4, 1.0, ("draft", "oracle")),
    ]
    whole, merged = Trace(), Trace()
    for one in cycles:
        whole.add(one)
        part = Trace()
        part.add(one)
        merged.merge(part)
    assert merged.to_json() == whole.to_json()
    assert merged.spent["oracle"] == Spent(3, 6, 9, 12, 0.875)
    again = Trace.from_json(json.loads(json.dumps(whole.to_json())))
    assert again.to_json() == whole.to_json()
    assert (again.alpha("draft2"), again.origins["draft"]) == (whole.alpha("draft2"), 0)


def test_an_engine_with_another_table_shares_the_model_and_learns_for_itself(engine):
    other = engine.with_table(None)
    assert other._oracle is engine._oracle
    assert other._guessing["draft2"] is not engine._guessing["draft2"]
    assert other._experience["draft"] is not engine._experience["draft"]
    texts = [
        [token for one in each.generate(PROMPT, SamplingParams(20)) for token in one.tokens]
        for each in (engine, other, engine)
    ]
    assert texts[0] == texts[1] == texts[2]
