"""An engine as its users see it: load, generate, again and again; one sentence for what cannot be done."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from engine import CancelToken, DraftlineError, Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.katz import write_table
from engine.linear import keeps_rows_apart
from engine.linear_packed import Bf16Linear
from tests.engine.tiny_models import SIZES, TOKENS, write_model, write_tokenizer

CONTEXT = SIZES["max_position_embeddings"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def ready(model: Path, weights: str) -> Engine:
    """A fresh engine to which every guess seems to pay, on any machine."""
    engine = load(model, weights=weights)
    engine._oracle.times = StepTimes((1, 32), (1.0, 1.0))
    return engine


@pytest.fixture(scope="module", params=["fp32", "int8"])
def engine(request: pytest.FixtureRequest, model: Path) -> Engine:
    return ready(model, request.param)


def text(
    engine: Engine, prompt: list[int], max_tokens: int = 40, mode: str = "staged", **params: object
) -> list[int]:
    cycles = engine.generate(prompt, SamplingParams(max_tokens=max_tokens, mode=mode, **params))
    return [token for cycle in cycles for token in cycle.tokens]


def write_trigrams(path: Path, engine: Engine, *documents: list[int]) -> Path:
    arrays = [np.array(document, dtype=np.uint32) for document in documents]
    write_table(path, arrays, engine.tokenizer.vocab_size, engine.tokenizer.fingerprint)
    return path


# Loading


def test_an_engine_says_what_it_is(model: Path):
    progress: list[float] = []
    engine = load(model, weights="int8", on_progress=progress.append)
    assert (engine.name, engine.device, engine.weights) == ("tiny", "cpu", "int8")
    assert (engine.max_context, engine.tokenizer.vocab_size) == (CONTEXT, TOKENS)
    assert engine.load_seconds > 0
    assert engine.reading_seconds == engine.step_times(32) / 32
    assert progress == sorted(progress)
    assert progress[-1] == 1.0


def test_by_default_weights_are_int8(model: Path):
    assert load(str(model)).weights == "int8"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"device": "gpu9"}, "gpu9.*cpu"),
        ({"weights": "int3"}, "int3.*auto, fp32, bf16, fp16 or int8"),
        ({"weights": "fp16"}, "fp16 weights.*use int8"),
        ({"draft2": "nowhere"}, "nowhere"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence(model: Path, arguments, message):
    with pytest.raises(DraftlineError, match=message) as raised:
        load(model, **arguments)
    assert_one_sentence(raised.value)


def test_a_missing_model_is_one_sentence(tmp_path: Path):
    with pytest.raises(DraftlineError, match=r"no model at .*nowhere") as raised:
        load(tmp_path / "nowhere")
    assert_one_sentence(raised.value)


def assert_one_sentence(error: DraftlineError) -> None:
    message = str(error)
    assert message.endswith(".")
    assert "\n" not in message


# Generating

prompts = st.one_of(
    st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=100),
    st.lists(st.integers(0, 3), min_size=1, max_size=100),
)


@settings(max_examples=20)
@given(prompts, st.integers(0, 60))
def test_staged_and_plain_write_the_same(engine, prompt, max_tokens):
    staged = text(engine, prompt, max_tokens)
    assert staged == text(engine, prompt, max_tokens, "plain")
    assert len(staged) == max_tokens
    assert all(0 <= token < TOKENS for token in staged)


@pytest.mark.skipif(not keeps_rows_apart(Bf16Linear), reason="no bf16 product on this processor")
def test_in_bf16_too_staged_and_plain_write_the_same(model: Path):
    engine = ready(model, "bf16")
    for prompt in ([5], [1, 2, 3] * 9, list(range(90))):
        assert text(engine, prompt, 60) == text(engine, prompt, 60, "plain")


BASE = [random.Random(0).randrange(TOKENS) for _ in range(80)]


@settings(max_examples=20)
@given(st.data())
def test_requests_that_are_cancelled_or_dropped_leave_an_engine_as_good_as_fresh(engine, data):
    prompt = data.draw(prompts)
    cancel = CancelToken()
    generator = engine.generate(prompt, SamplingParams(max_tokens=60), cancel)
    for _ in range(data.draw(st.integers(0, 8))):
        next(generator, None)
    if data.draw(st.booleans()):
        generator.close()
    else:
        cancel.cancel()
        assert list(generator) == []
    following = [*prompt[: data.draw(st.integers(1, len(prompt)))], *data.draw(prompts)][:120]
    assert text(engine, following) == text(engine, following, mode="plain")


def test_cancelled_before_it_begins_it_writes_nothing(engine):
    cancel = CancelToken()
    cancel.cancel()
    assert list(engine.generate([1, 2, 3], SamplingParams(), cancel)) == []


@pytest.mark.parametrize("mode", ["plain", "staged"])
def test_the_stop_id_and_what_follows_are_left_out(engine, mode):
    whole = text(engine, BASE)
    stop = whole[17]
    params = SamplingParams(max_tokens=40, stop_ids=(stop,), mode=mode)
    cycles = list(engine.generate(BASE, params))
    assert [token for cycle in cycles for token in cycle.tokens] == whole[: whole.index(stop)]
    assert all(len(cycle.tokens) == len(cycle.origins) for cycle in cycles)


def test_a_prompt_and_its_text_may_fill_the_context(engine):
    prompt = (BASE * 3)[: CONTEXT - 50]
    assert len(text(engine, prompt, 50)) == 50
    assert text(engine, prompt, 50) == text(engine, prompt, 50, "plain")


@pytest.mark.parametrize(
    ("prompt", "max_tokens", "message"),
    [
        ([], 10, "prompt is empty"),
        ([1, TOKENS], 10, f"outside 0 to {TOKENS - 1}"),
        ([-1], 10, "outside 0"),
        ([1], -1, "max_tokens is -1"),
        ([1] * (CONTEXT + 1), 0, f"context of {CONTEXT}"),
        ([1] * (CONTEXT - 9), 10, f"context of {CONTEXT}"),
    ],
)
def test_a_request_that_cannot_be_met_is_one_sentence_and_harms_nothing(engine, prompt, max_tokens, message):
    before = text(engine, BASE)
    with pytest.raises(DraftlineError, match=message) as raised:
        text(engine, prompt, max_tokens)
    assert_one_sentence(raised.value)
    assert text(engine, BASE) == before


def test_a_padded_vocabulary_never_shows(model: Path, tmp_path: Path):
    """The padding's rows may hold anything, here what would always win."""
    from safetensors.torch import load_file, save_file

    for file in model.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"][TOKENS:] *= 1e4
    save_file(tensors, tmp_path / "model.safetensors")
    assert text(load(tmp_path, weights="fp32"), BASE) == text(load(model, weights="fp32"), BASE)


def test_no_tokens_asked_for_means_the_prompt_is_read_ahead(model: Path):
    engine = ready(model, "fp32")
    prompt = list(range(1, 40))
    assert text(engine, prompt, max_tokens=0) == []
    read = engine._oracle.spent()["oracle"]
    (cycle,) = engine.generate(prompt, SamplingParams(max_tokens=1, mode="plain"))
    assert cycle.tokens == text(ready(model, "fp32"), prompt, max_tokens=1, mode="plain")
    assert (engine._oracle.spent()["oracle"] - read).rows == 1


def test_memory_does_not_grow_with_the_requests(engine):
    def places() -> list[int]:
        cache = engine._oracle._reader.cache
        return [tensor.data_ptr() for tensor in (*cache.keys, *cache.values)]

    before = places()
    for seed in range(5):
        text(engine, [random.Random(seed).randrange(TOKENS) for _ in range(90)])
    assert places() == before


# The trigram table


def test_a_table_changes_the_guesses_and_not_the_text(model: Path, tmp_path: Path):
    plain = ready(model, "fp32")
    expected = text(plain, BASE)
    table = write_trigrams(tmp_path / "table", plain, BASE + expected)
    told = load(model, draft2=table, weights="fp32")
    told._oracle.times = plain.step_times
    cycles = list(told.generate(BASE, SamplingParams(max_tokens=40)))
    assert [token for cycle in cycles for token in cycle.tokens] == expected
    assert len(cycles) < 20
    assert "draft2" in {origin for cycle in cycles for origin in cycle.origins}


def test_a_table_may_be_given_and_taken_away(engine, tmp_path: Path):
    expected = text(engine, BASE)
    for table in (write_trigrams(tmp_path / "table", engine, BASE), None):
        engine.use_table(table)
        assert text(engine, BASE) == expected


def test_a_table_of_another_tokenizer_is_refused_and_the_one_in_use_stays(engine, tmp_path: Path):
    expected = text(engine, BASE)
    other = tmp_path / "other"
    write_table(other, [np.array([1, 2, 3], dtype=np.uint32)], TOKENS, "0" * 64)
    with pytest.raises(DraftlineError) as raised:
        engine.use_table(other)
    assert_one_sentence(raised.value)
    assert text(engine, BASE) == expected


# A draft, and the modes that need one


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small", seed=5, num_hidden_layers=1)


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_with_a_draft_the_text_is_the_same(model: Path, small: Path, temperature: float):
    alone, helped = ready(model, "int8"), load(model, draft=small, weights="int8")
    for seed in range(3):
        texts = {
            tuple(token for cycle in engine.generate(BASE, params) for token in cycle.tokens)
            for engine in (alone, helped)
            for mode in ("plain", "staged")
            for params in [SamplingParams(30, temperature, seed=seed, mode=mode)]
        }
        assert len(texts) == 1


@pytest.mark.parametrize("approximation", ["draft", "trigram", "bigram", "unigram", "lookup", "random"])
def test_greedy_standard_decoding_writes_the_same_whatever_approximates(
    model: Path, small: Path, tmp_path: Path, approximation: str
):
    engine = load(model, draft=small, weights="fp32")
    engine.use_table(write_trigrams(tmp_path / "table", engine, BASE))
    expected = text(engine, BASE, 20, "plain")
    params = SamplingParams(20, mode="standard", approximation=approximation, gamma=3)
    cycles = list(engine.generate(BASE, params))
    assert [token for cycle in cycles for token in cycle.tokens] == expected
    assert all(cycle.rows <= 4 for cycle in cycles)
    assert text(engine, BASE, 20, "standard", approximation=approximation, gamma=None) == expected


def test_windows_that_take_turns_each_guess_with_their_own(model: Path, small: Path, tmp_path: Path):
    engine = ready(model, "int8")
    expected = text(engine, BASE)
    tables = [write_trigrams(tmp_path / name, engine, BASE) for name in "ab"]
    known = []
    for draft, table in [(None, tables[0]), (small, tables[1]), (None, tables[0]), (small, tables[1])]:
        engine.guess_with(draft, [tmp_path / "missing", table])
        assert text(engine, BASE) == expected
        known.append(engine._guessing["all"])
    assert known[:2] == known[2:]  # with what was learned before
    assert known[0] is not known[1]
    write_trigrams(tmp_path / "new", engine, BASE + expected).replace(tables[0])
    engine.guess_with(None, [tables[0]])
    assert engine._guessing["all"] is not known[0]
    assert text(engine, BASE) == expected


def test_guesses_that_cannot_be_had_cost_speed_alone(model: Path, tmp_path: Path, caplog):
    engine = ready(model, "int8")
    expected = text(engine, BASE)
    (tmp_path / "damaged").write_bytes(b"no table")
    (tmp_path / "no model").mkdir()
    (tmp_path / "no model" / "notes").write_text("nothing", encoding="utf-8")
    for _ in range(3):
        engine.guess_with(tmp_path / "no model", [tmp_path / "damaged"])
        assert text(engine, BASE) == expected
    assert len(caplog.messages) == 2


def test_without_a_draft_it_cannot_guess_alone(engine):
    with pytest.raises(DraftlineError, match="no draft model") as raised:
        list(engine.generate(BASE, SamplingParams(guessers="draft")))
    assert_one_sentence(raised.value)


@pytest.mark.parametrize("approximation", ["draft", "trigram"])
def test_what_is_not_loaded_cannot_approximate(engine, approximation: str):
    engine.use_table(None)
    with pytest.raises(DraftlineError) as raised:
        list(engine.generate(BASE, SamplingParams(mode="standard", approximation=approximation)))
    assert_one_sentence(raised.value)


def test_a_draft_of_another_tokenizer_is_refused(model: Path, tmp_path: Path):
    other = write_model(tmp_path / "other")
    write_tokenizer(other / "tokenizer.json", ["<|endoftext|>", "<|pad|>"])
    with pytest.raises(DraftlineError, match="another tokenizer") as raised:
        load(model, draft=other)
    assert_one_sentence(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", -1),
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("top_k", -1),
        ("top_p", -0.1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("top_p", float("nan")),
        ("mode", "fast"),
        ("approximation", "guess"),
        ("gamma", 0),
        ("guessers", "all of them"),
        ("shape", "bush"),
        ("lenience", 0.0),
        ("lenience", 1.5),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name: str, value: object):
    with pytest.raises(DraftlineError, match=name) as raised:
        SamplingParams(**{name: value})
    assert_one_sentence(raised.value)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path):
    broken = write_model(tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    weights["model.norm.weight"].fill_(float("nan"))
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(DraftlineError, match="not numbers") as raised:
        load(broken, weights="fp32")
    assert_one_sentence(raised.value)
    assert "model.norm.weight" in str(raised.value)
    assert str(broken) in str(raised.value)


@pytest.mark.parametrize("token", [-1, TOKENS, 99_999])
def test_a_context_with_tokens_that_there_are_not_is_refused_by_name(engine, token: int):
    with pytest.raises(DraftlineError, match="The context has token ids outside") as raised:
        list(engine.generate(BASE, SamplingParams(), context_ids=[*BASE, token, *BASE]))
    assert_one_sentence(raised.value)


def test_a_request_cannot_go_on_once_a_later_one_has_begun(engine):
    expected = text(engine, BASE)
    first = engine.generate(BASE, SamplingParams())
    next(first)
    second = engine.generate(BASE[::-1], SamplingParams())
    next(second)
    with pytest.raises(RuntimeError, match="later request"):
        next(first)
    second.close()
    assert text(engine, BASE) == expected
