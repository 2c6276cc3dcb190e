"""What is carved out of a model: some of its layers, some of its tokens, and nothing else changed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from engine.checkpoint import check_directory
from engine.errors import DraftlineError
from model_setup.carve import SMALLER, carve, frequent_tokens, plan_carving, read_size
from tests.engine.tiny_models import TOKENS, linear_logits, load_tiny, write_model

TEXT = list(range(0, 200, 7))
FAMILIES = ["qwen2", "qwen3", "llama", "gpt2", "starcoder2", "granite"]


def logits(model: Path) -> torch.Tensor:
    transformer = load_tiny(model)
    return linear_logits(transformer, TEXT, transformer.new_cache(64), chunk=16)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [False, True])
def test_with_all_layers_and_tokens_it_is_the_model_itself(tmp_path: Path, family, tied):
    oracle = write_model(tmp_path / "oracle", family, tie_word_embeddings=tied)
    carve(oracle, tmp_path / "draft", [0, 1], None)
    assert torch.equal(logits(tmp_path / "draft"), logits(oracle))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_layers_kept_are_the_oracles_own_under_new_numbers(tmp_path: Path, family):
    oracle = write_model(tmp_path / "oracle", family, num_hidden_layers=4)
    kept = list(range(0, TOKENS, 3))
    carve(oracle, tmp_path / "draft", [1, 3], kept)
    check_directory(tmp_path / "draft")
    ours, theirs = (load_file(path / "model.safetensors") for path in (tmp_path / "draft", oracle))
    for name, tensor in ours.items():
        for new, old in ((".0.", ".1."), (".1.", ".3.")):
            if new in name:
                assert torch.equal(tensor, theirs[name.replace(new, old)])
    assert len([name for name in ours if ".0." in name]) == len([name for name in theirs if ".1." in name])
    assert torch.equal(ours["lm_head.weight"], theirs["lm_head.weight"][kept])
    described = json.loads((tmp_path / "draft" / "config.json").read_text(encoding="utf-8"))
    assert described.get("num_hidden_layers", described.get("n_layer")) == 2
    assert len(described.get("layer_types", [0, 0])) == 2


def test_a_draft_is_about_as_much_smaller_as_wanted(tmp_path: Path):
    oracle = write_model(tmp_path / "oracle", num_hidden_layers=40, hidden_size=32, intermediate_size=48)
    plan = plan_carving(oracle, np.ones(TOKENS))
    assert plan.oracle_parameters == read_size(oracle).whole
    assert 0.7 < plan.oracle_parameters / plan.parameters / SMALLER < 1.4
    carve(oracle, tmp_path / "draft", plan.layers, range(plan.tokens))
    assert read_size(tmp_path / "draft").whole - read_size(oracle).row == plan.parameters


def test_no_more_tokens_are_kept_than_nearly_all_of_the_text_needs(tmp_path: Path):
    oracle = write_model(tmp_path / "oracle", num_hidden_layers=60, hidden_size=32, intermediate_size=48)
    counts = np.zeros(TOKENS)
    counts[:10] = 100
    counts[10:] = 0.01
    assert plan_carving(oracle, counts).tokens == 10


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=50),
    st.integers(1, 60),
    st.sets(st.integers(0, 49), max_size=5),
)
def test_the_most_frequent_tokens_are_kept_and_always_those_that_must_be(counts, count, always):
    occurred = np.array(counts, dtype=float)
    always = {token % len(counts) for token in always}
    kept = frequent_tokens(occurred, count, sorted(always))
    assert kept == sorted(set(kept))
    assert always <= set(kept)
    assert len(kept) == max(len(always), min(count, len(counts)))
    left_out = set(range(len(counts))) - set(kept)
    chosen = set(kept) - always
    assert not left_out or not chosen or min(occurred[list(chosen)]) >= max(occurred[list(left_out)])


def test_what_is_no_model_is_refused_and_leaves_nothing(tmp_path: Path):
    with pytest.raises(DraftlineError):
        carve(tmp_path / "nothing", tmp_path / "draft", [0], [1, 2])
    assert not list(tmp_path.iterdir())
