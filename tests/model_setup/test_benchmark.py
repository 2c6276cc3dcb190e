"""The benchmark on a tiny model: every setting once for every prompt, nothing twice, and never half."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from engine.engine import load
from engine.errors import DraftlineError
from engine.katz import write_counts
from engine.ngram_count import count
from engine.request import SamplingParams
from engine.tokenizer import Tokenizer
from model_setup import benchmark
from model_setup.benchmark import measure
from model_setup.benchmark_prompts import Prompt
from model_setup.contest import Contest, modes, pieces
from model_setup.corpus import held_out
from model_setup.results import Results, Setting
from tests.engine.tiny_models import write_model

LINES = [f"value_{n} = compute(value_{n - 1}, {n})" for n in range(40)]
KEPT = next(Path(f"m{n}.py") for n in range(99) if held_out(Path(f"m{n}.py")))
LEARNED = next(Path(f"m{n}.py") for n in range(99) if not held_out(Path(f"m{n}.py")))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The arguments of `measure`: a repository of one held-out file, models and tables."""
    folder = tmp_path_factory.mktemp("made")
    oracle = write_model(folder / "oracle", seed=1, max_position_embeddings=512)
    draft = write_model(folder / "draft", seed=2, num_hidden_layers=1, max_position_embeddings=512)
    tokenizer = Tokenizer(oracle / "tokenizer.json")
    for name, line in (("general", "a = 1"), ("table", LINES[3])):
        counts = count([np.array(tokenizer.encode(line), dtype=np.uint32)], tokenizer.vocab_size)
        write_counts(folder / name, counts, tokenizer.vocab_size, tokenizer.fingerprint)
    (folder / "shop").mkdir()
    (folder / "shop" / KEPT).write_text("\n".join(LINES), encoding="utf-8")
    return {
        "repository": folder / "shop",
        "oracle": oracle,
        "draft": draft,
        "general": folder / "general",
        "table": folder / "table",
        "weights": "fp32",
        "tokens": 12,
        "prompts": 2,
    }


@pytest.fixture(scope="module", autouse=True)
def few_tokens_do():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "LEAST_TOKENS", 1)
        yield


@pytest.fixture(scope="module")
def results(made) -> Results:
    return measure(**made)


def test_every_setting_decodes_every_prompt_before_and_after(results):
    names = ["standard, trigram", "chain, draft2", "tree, draft2"]
    more = ["standard, draft", "chain, draft", "tree, draft", "chain, draft + draft2", "tree, draft + draft2"]
    for sampling in ("greedy", "top-k 50"):
        found = [(one.phase, one.name) for one in results.settings if one.sampling == sampling]
        assert found[0] == ("", "plain")
        assert sorted(name for phase, name in found if phase == "before") == sorted(names)
        assert sorted(name for phase, name in found if phase == "after") == sorted(names + more)
    assert len(results.prompts) == 2
    assert all(len(prompt.outcomes) == len(results.settings) for prompt in results.prompts)


def test_the_text_is_plain_s_wherever_the_guesses_come_from(results):
    for setting in results.settings:
        if not setting.name.startswith("standard") or setting.sampling == "greedy":
            assert results.figures("repository", setting).differing == 0


def test_each_setting_s_figures_add_up(results):
    for setting in results.settings:
        figures = results.figures("repository", setting)
        assert sum(figures.shares.values()) == pytest.approx(1)
        assert figures.rates.low <= figures.rates.middle <= figures.rates.high
        assert figures.trace.tokens == sum(len(outcome.pieces) for outcome in figures.outcomes)
    plain = results.figures("repository", results.settings[0])
    assert (plain.ratio, plain.predicted, sum(plain.bytes.values())) == pytest.approx((1, 1, 1))


def test_the_facts_say_what_was_measured_and_where(results):
    assert {"processor", "threads", "torch", "python", "date", "draftline"} <= results.facts.keys()
    assert (results.facts["model"], results.facts["weights"], results.facts["held_out_files"]) == (
        "oracle",
        "fp32",
        1,
    )


def test_without_anything_of_the_repository_s_own_there_is_no_after(made):
    results = measure(**{**made, "draft": None, "table": None, "prompts": 1})
    assert results.phases == ["before"]
    assert results.saved("repository", "greedy") is None
    assert results.usual("before", "greedy").name == "tree, draft2"


def test_a_run_that_was_stopped_goes_on_and_nothing_is_measured_twice(made, tmp_path, monkeypatch):
    journal = tmp_path / "reports" / "journal.jsonl"
    decoded, most = [], 1
    decode = Contest.decode

    def counted(self, prompt, first):
        if len(decoded) == most:
            raise KeyboardInterrupt
        decoded.append(prompt.name)
        return decode(self, prompt, first)

    monkeypatch.setattr(Contest, "decode", counted)
    with pytest.raises(KeyboardInterrupt):
        measure(**made, journal=journal)
    most = 3
    results = measure(**made, journal=journal)
    assert len(decoded) == len(set(decoded)) == 2
    again = measure(**made, journal=journal)
    assert [prompt.to_json() for prompt in again.prompts] == [prompt.to_json() for prompt in results.prompts]
    assert len(decoded) == 2
    measure(**{**made, "tokens": 13, "prompts": 1}, journal=journal)
    assert len(decoded) == 3, "with other settings it is another measurement"


def test_when_time_is_over_no_other_prompt_is_begun(made):
    seen = []
    results = measure(**made, seconds=0, progress=lambda done, wanted: seen.append((done, wanted)))
    assert len(results.prompts) == 1
    assert seen == [(1, 2)]


def test_where_the_model_writes_next_to_nothing_no_rate_is_measured(made, monkeypatch):
    monkeypatch.setattr(benchmark, "_stop_ids", lambda engine: tuple(range(engine.tokenizer.vocab_size)))
    with pytest.raises(DraftlineError, match="fewer than 1 tokens"):
        measure(**made)


def test_a_repository_without_held_out_code_is_told_in_one_sentence(made, tmp_path):
    (tmp_path / LEARNED).write_text("\n".join(LINES), encoding="utf-8")
    with pytest.raises(DraftlineError, match="nothing to benchmark on"):
        measure(**{**made, "repository": tmp_path})


def test_settings_take_turns_beginning_with_another_each_time(made):
    engine = load(made["oracle"], weights="fp32")
    order = []

    class Recorded:
        tokenizer, step_times = engine.tokenizer, engine.step_times

        def __init__(self, name):
            self.name = name

        def generate(self, *arguments, **options):
            order.append(self.name)
            return engine.generate(*arguments, **options)

    settings = {
        Setting("greedy", "", name): (Recorded(name), SamplingParams(max_tokens=4, mode=params.mode))
        for name, params in modes(False).items()
        if name != "standard, trigram"
    }
    contest = Contest(settings)
    outcomes = [contest.decode(Prompt("p", [1, 2, 3], [1, 2, 3]), first) for first in (0, 1)]
    assert order == ["plain", "chain, draft2", "tree, draft2", "chain, draft2", "tree, draft2", "plain"]
    assert outcomes[1][0].trace.spent.keys() == {"oracle"}
    assert all(outcome.same for outcome in outcomes[1])


def test_a_character_of_several_tokens_is_the_last_one_s(made):
    engine = load(made["oracle"], weights="fp32")
    tokens = engine.tokenizer.encode("aя€")
    assert len(tokens) == 6
    shown = pieces(engine, tokens, ["oracle", "draft2", "draft2", "draft", "draft", "oracle"])
    assert shown == [
        ("a", "oracle"), ("", "draft2"), ("я", "draft2"), ("", "draft"), ("", "draft"), ("€", "oracle")
    ]  # fmt: skip
    assert pieces(engine, tokens[:2], ["oracle", "draft"])[1][0] == "\N{REPLACEMENT CHARACTER}"


def test_results_are_the_same_after_a_round_trip_through_json(results):
    stored = json.loads(json.dumps(results.to_json()))
    again = Results.from_json(stored)
    assert json.loads(json.dumps(again.to_json())) == stored


@pytest.mark.slow
def test_the_real_model_writes_the_same_text_in_every_staged_setting(default_model, tmp_path):
    tokenizer = Tokenizer(default_model / "tokenizer.json")
    code = "\n".join(LINES[:20])  # a short prompt: seconds, not half a minute
    counts = count([np.array(tokenizer.encode(code), dtype=np.uint32)], tokenizer.vocab_size)
    write_counts(tmp_path / "general", counts, tokenizer.vocab_size, tokenizer.fingerprint)
    repository = tmp_path / "shop"
    repository.mkdir()
    (repository / KEPT).write_text(code, encoding="utf-8")
    results = measure(repository, default_model, general=tmp_path / "general", prompts=1, tokens=12)
    for setting in results.settings:
        figures = results.figures("repository", setting)
        assert setting.name.startswith("standard") or figures.differing == 0
    pieces_of_plain = results.prompts[0].outcomes[0].pieces
    assert sum(len(text) for text, _ in pieces_of_plain) > len(pieces_of_plain) > 0
