"""What a draft is made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tokenizer import Tokenizer
from model_setup import draft_start, store
from model_setup.draft_start import find_sibling, identity, older_self
from tests.engine.tiny_models import SPECIAL, write_model, write_tokenizer

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}


@pytest.fixture
def oracle(tmp_path: Path) -> Path:
    return write_model(tmp_path / "oracle", **{**SMALL, "num_hidden_layers": 60})


@pytest.fixture
def tokenizer(oracle: Path) -> Tokenizer:
    return Tokenizer(oracle / "tokenizer.json")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The models that are installed, by name."""
    models: dict[str, Path] = {}
    monkeypatch.setattr(draft_start, "PRESETS", models)
    monkeypatch.setattr(store, "installed_model", models.get)
    return models


def test_a_sibling_is_an_installed_model_of_the_right_size_with_the_same_tokenizer(
    oracle, tokenizer, installed, tmp_path
):
    assert find_sibling(oracle, tokenizer) is None
    installed["itself"] = oracle
    installed["a third"] = write_model(tmp_path / "third", **{**SMALL, "num_hidden_layers": 20})
    assert find_sibling(oracle, tokenizer) is None
    small = write_model(tmp_path / "small", **SMALL)
    installed["another family"] = write_model(tmp_path / "other", **SMALL)
    write_tokenizer(tmp_path / "other" / "tokenizer.json", [*SPECIAL[:-1], "<|other|>"])
    assert find_sibling(oracle, tokenizer) is None
    installed["small"] = small
    assert find_sibling(oracle, tokenizer) == small


def test_only_a_whole_draft_of_the_same_tokenizer_is_learned_on_from(tmp_path, tokenizer):
    assert older_self(tmp_path / "nothing", tokenizer) is None
    draft = write_model(tmp_path / "draft", **SMALL)
    assert older_self(draft, tokenizer) == draft
    weights = draft / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:1000])
    assert older_self(draft, tokenizer) is None
    weights.write_bytes(whole)
    write_tokenizer(draft / "tokenizer.json", [*SPECIAL[:-1], "<|other|>"])
    assert older_self(draft, tokenizer) is None


def test_a_models_identity_follows_its_weights_and_not_its_place(tmp_path):
    first = write_model(tmp_path / "first", **SMALL)
    same = write_model(tmp_path / "same", **SMALL)
    other = write_model(tmp_path / "other", seed=1, **SMALL)
    assert identity(first) == identity(same) != identity(other)
    before = identity(first)
    store.write_manifest(first, source="a test", source_sha256="")
    assert identity(first) == before
