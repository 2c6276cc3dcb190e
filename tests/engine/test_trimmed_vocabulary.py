"""A draft that knows only some tokens: what it says of those is what the whole model says, and it fits in."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from engine import DraftlineError, SamplingParams, load
from engine.checkpoint import load_checkpoint
from engine.cost_model import StepTimes
from engine.sampling import Sampler
from engine.trimmed_vocabulary import trim_vocabulary
from tests.engine.test_draft import CHEAP, cycles, draft, oracle_of, text_of
from tests.engine.tiny_models import (
    TOKENS,
    change_config,
    linear_logits,
    load_tiny,
    tree_logits,
    write_model,
    write_tokenizer,
)

KEPT = [*range(0, 200, 2), 201, 256, 257]
DROPPED = [token for token in range(TOKENS) if token not in KEPT]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "whole", seed=3)


@pytest.fixture(scope="module", params=["own head", "tied head"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model, and the same with a trimmed vocabulary."""
    folder = tmp_path_factory.mktemp("models")
    source = write_model(folder / "whole", tie_word_embeddings=request.param == "tied head")
    trim_vocabulary(source, folder / "trimmed", KEPT)
    return source, folder / "trimmed"


@pytest.fixture
def trimmed(whole: Path, tmp_path: Path) -> Path:
    trim_vocabulary(whole, tmp_path / "trimmed", KEPT)
    return tmp_path / "trimmed"


def change_token_ids(model: Path, token_ids: torch.Tensor) -> None:
    tensors = load_file(model / "model.safetensors")
    save_file({**tensors, "token_ids": token_ids}, model / "model.safetensors")


# What it says


def test_of_kept_tokens_it_says_what_the_whole_model_says(both):
    text = [KEPT[i % len(KEPT)] for i in range(0, 350, 7)]
    models = [load_tiny(path) for path in both]
    theirs, ours = (linear_logits(model, text, model.new_cache(64)) for model in models)
    assert torch.equal(ours[:, KEPT], theirs[:, KEPT])
    assert ours.shape == theirs.shape
    assert bool((ours[:, DROPPED] == -torch.inf).all())


def test_a_token_it_does_not_know_reads_as_the_mean_of_those(both):
    source, path = both
    tensors = load_file(source / "model.safetensors")
    name = "model.embed_tokens.weight"
    mean = tensors[name][DROPPED].mean(dim=0)
    tensors[name][DROPPED] = mean
    tensors.setdefault("lm_head.weight", load_file(source / "model.safetensors")[name])
    levelled = Path(shutil.copytree(source, path.with_name("levelled")))
    save_file(tensors, levelled / "model.safetensors")
    change_config(levelled, tie_word_embeddings=False)
    ours, theirs = load_tiny(path), load_tiny(levelled)
    text = [DROPPED[0], KEPT[5], DROPPED[-1], DROPPED[7], KEPT[1]]
    ours_logits = linear_logits(ours, text, ours.new_cache(64))
    assert torch.equal(ours_logits[:, KEPT], linear_logits(theirs, text, theirs.new_cache(64))[:, KEPT])
    cache = ours.new_cache(64)
    assert torch.equal(tree_logits(ours, cache, text, [-1, 0, 1, 2, 3]), ours_logits)


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_it_reads_fewer_bytes(whole: Path, trimmed: Path, weights):
    heads = [load_checkpoint(path, weights).transformer._head.weight_bytes for path in (whole, trimmed)]
    assert heads[0] * len(KEPT) == heads[1] * TOKENS


# As a draft


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, whole: Path):
    oracle = write_model(tmp_path_factory.mktemp("models") / "oracle", seed=4)
    trim_vocabulary(whole, whole.with_name("draft"), KEPT)
    return load_tiny(oracle), load_tiny(whole.with_name("draft")), load_tiny(whole)


@settings(max_examples=8)
@given(
    st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=40),
    st.sampled_from([0.0, 0.8, 1.5]),
    st.integers(0, 99),
)
def test_any_chain_with_it_writes_the_oracles_text(models, prompt, temperature, seed):
    oracle, small, middle = models
    sampler = Sampler(temperature, seed=seed)
    plain = text_of(cycles(oracle_of(oracle), None, prompt, 30, sampler))
    for chain in (draft(small, None), draft(middle, draft(small, None)), draft(small, draft(middle, None))):
        assert text_of(cycles(oracle_of(oracle), chain, prompt, 30, sampler)) == plain


def test_its_guesses_are_accepted_where_the_oracle_says_a_kept_token(whole: Path, trimmed: Path):
    """Here the oracle is the whole model, which reads kept tokens as its trimmed self does."""
    oracle, small = oracle_of(load_tiny(whole)), draft(load_tiny(trimmed), None, CHEAP)
    said = []
    for first in range(0, 60, 2):
        (cycle, *_) = cycles(oracle, small, [first, first + 2, first + 4], 2)
        said.append((cycle.tokens[0], cycle.origins[0]))
    assert {origin for token, origin in said if token in KEPT} == {"draft"}
    assert {origin for token, origin in said if token not in KEPT} == {"oracle"}


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_an_engine_with_it_writes_the_oracles_text_in_every_mode(whole: Path, trimmed: Path, weights):
    engine = load(whole, draft=trimmed, weights=weights)
    engine._oracle.times = StepTimes((1, 32), (1.0, 1.0))
    texts = {
        mode: [
            token
            for cycle in engine.generate(
                [7, DROPPED[3], 9], SamplingParams(max_tokens=40, mode=mode, approximation="draft")
            )
            for token in cycle.tokens
        ]
        for mode in ("plain", "standard", "staged")
    }
    assert texts["plain"] == texts["standard"] == texts["staged"]


def test_the_law_of_standard_mode_stays_the_oracles(whole: Path, trimmed: Path):
    """Tokens the draft cannot say have q = 0: they come by the replacements alone, as often as p says."""
    engine = load(whole, draft=trimmed, weights="fp32")
    prompt, draws = [1, 2, 3], 1500
    counts: Counter[int] = Counter()
    guessed = 0
    for seed in range(draws):
        params = SamplingParams(2, 1.0, seed=seed, mode="standard", approximation="draft", gamma=1)
        cycle = next(engine.generate(prompt, params))
        counts[cycle.tokens[0]] += 1
        guessed += cycle.origins[0] == "draft"
    assert 0.05 * draws < guessed < 0.95 * draws
    oracle = load_tiny(whole)
    logits = linear_logits(oracle, prompt, oracle.new_cache(64))[-1].numpy()
    law = Sampler(1.0).distribution(logits)
    assert sum(law.probability(token) for token in DROPPED) > 0.1
    expected = {int(token): draws * law.probability(token) for token in law.ids}
    frequent = [token for token, times in expected.items() if times >= 5]
    cells = [(counts[token], expected[token]) for token in frequent]
    cells.append((draws - sum(seen for seen, _ in cells), draws - sum(wanted for _, wanted in cells)))
    degrees = len(frequent)
    # four deviations of the chi-square: passed once in some 30,000 times
    limit = degrees + 4 * (2 * degrees) ** 0.5 + 4
    assert sum((seen - wanted) ** 2 / wanted for seen, wanted in cells) < limit


# What is refused


def refusal(path: Path) -> str:
    with pytest.raises(DraftlineError) as raised:
        load_checkpoint(path, "fp32")
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("token_ids", "named"),
    [
        ([*KEPT[:4], KEPT[5], KEPT[4], *KEPT[6:]], "do not rise"),  # two swapped
        ([*KEPT[:4], KEPT[4], KEPT[4], *KEPT[6:]], "do not rise"),  # one twice
        ([*KEPT[:-1], TOKENS], "outside"),
        ([-1, *KEPT[1:]], "outside"),
        (KEPT[:-1], f"are {len(KEPT) - 1} where its config.json says {len(KEPT)}"),
        ([*KEPT, TOKENS - 1], f"are {len(KEPT) + 1} where"),
        ([], "no list of token ids"),
        ([KEPT], "no list of token ids"),
        ([float(token) for token in KEPT], "no list of token ids"),
    ],
)
def test_token_ids_that_cannot_be_are_refused(trimmed: Path, token_ids, named):
    change_token_ids(trimmed, torch.tensor(token_ids))
    assert named in refusal(trimmed)


def test_a_trimmed_model_without_its_token_ids_is_refused(trimmed: Path):
    tensors = load_file(trimmed / "model.safetensors")
    del tensors["token_ids"]
    save_file(tensors, trimmed / "model.safetensors")
    assert "take both from the same model" in refusal(trimmed)


def test_an_oracle_has_to_know_every_token(whole: Path, trimmed: Path):
    with pytest.raises(DraftlineError, match="does for a draft but not for an oracle"):
        load(trimmed)


def test_a_trimmed_draft_of_another_tokenizer_is_refused(whole: Path, trimmed: Path):
    special = [f"<|{name}|>" for name in ("endoftext", "other", "fim_suffix", "fim_middle")]
    write_tokenizer(trimmed / "tokenizer.json", special)
    with pytest.raises(DraftlineError, match="another tokenizer"):
        load(whole, draft=trimmed)


# Trimming


def test_the_copy_says_its_own_size_and_has_the_whole_tokenizer(whole: Path, trimmed: Path):
    sizes = [json.loads((path / "config.json").read_text(encoding="utf-8")) for path in (whole, trimmed)]
    assert sizes[1] == {**sizes[0], "vocab_size": len(KEPT) + 1}
    assert (trimmed / "tokenizer.json").read_bytes() == (whole / "tokenizer.json").read_bytes()
    assert load_checkpoint(trimmed, "fp32").eos_ids == load_checkpoint(whole, "fp32").eos_ids


@pytest.mark.parametrize("family", ["gpt2", "starcoder2", "granite"])
def test_other_families_are_trimmed_too(tmp_path: Path, family):
    source = write_model(tmp_path / "whole", family, tie_word_embeddings=family == "gpt2")
    trim_vocabulary(source, tmp_path / "trimmed", KEPT)
    whole, small = load_tiny(source), load_tiny(tmp_path / "trimmed")
    theirs, ours = (linear_logits(model, KEPT[:9], model.new_cache(64)) for model in (whole, small))
    assert torch.equal(ours[:, KEPT], theirs[:, KEPT])


def test_half_precision_stays_half_precision(whole: Path, tmp_path: Path):
    source = Path(shutil.copytree(whole, tmp_path / "half"))
    tensors = {name: tensor.half() for name, tensor in load_file(source / "model.safetensors").items()}
    save_file(tensors, source / "model.safetensors")
    trim_vocabulary(source, tmp_path / "trimmed", KEPT)
    dtypes = {n: t.dtype for n, t in load_file(tmp_path / "trimmed" / "model.safetensors").items()}
    assert dtypes.pop("token_ids") == torch.int64
    assert set(dtypes.values()) == {torch.float16}


@pytest.mark.parametrize("token_ids", [[], [3, 2], [2, TOKENS], list(range(TOKENS))])
def test_ids_that_cannot_be_kept_are_refused(whole: Path, tmp_path: Path, token_ids):
    with pytest.raises(DraftlineError):
        trim_vocabulary(whole, tmp_path / "trimmed", token_ids)
    assert not list(tmp_path.iterdir())


def test_nothing_is_trimmed_twice(trimmed: Path, tmp_path: Path):
    with pytest.raises(DraftlineError, match="nothing to trim"):
        trim_vocabulary(trimmed, tmp_path / "again", KEPT[:-1])


def test_an_interrupted_copy_leaves_the_old_one(whole: Path, trimmed: Path, monkeypatch):
    before = {path.name: path.read_bytes() for path in trimmed.iterdir()}

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("engine.trimmed_vocabulary.save_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        trim_vocabulary(whole, trimmed, KEPT[:-1])
    assert {path.name: path.read_bytes() for path in trimmed.iterdir()} == before
    assert [path.name for path in trimmed.parent.iterdir()] == ["trimmed"]
