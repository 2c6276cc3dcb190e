"""What cannot be run is refused in one sentence that names the culprit, and the engine in use goes on.

Already said elsewhere: values out of range (test_engine: a_value_out_of_range_is_refused_by_name), requests
that do not fit (a_request_that_cannot_be_met...), a draft or a table of another tokenizer (test_engine,
test_ngram), damaged directories and files one by one (test_checkpoint, test_gguf_file, test_ngram).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from engine import DraftlineError, Engine, SamplingParams, load
from engine.katz import write_table
from engine.tokenizer import Tokenizer
from tests.engine.tiny_models import write_model
from tests.tiny_gguf import tiny_weights, write_tiny_gguf

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 3, 1, 4]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "oracle")
    write_model(folder / "draft", seed=5, num_hidden_layers=1)
    return folder


@pytest.fixture
def draft(models: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(models / "draft", tmp_path / "spoilt"))


def refusal(oracle: Path, **arguments: Path | str) -> str:
    with pytest.raises(DraftlineError) as raised:
        load(oracle, **arguments)
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def text(engine: Engine, **params: object) -> list[int]:
    cycles = engine.generate(PROMPT, SamplingParams(12, **params))
    return [token for cycle in cycles for token in cycle.tokens]


def swap_two_ids(tokenizer: Path) -> None:
    """The same tokens, as many of them, and two of them under each other's id."""
    description = json.loads(tokenizer.read_text(encoding="utf-8"))
    vocabulary = description["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    tokenizer.write_text(json.dumps(description), encoding="utf-8")


def test_a_draft_with_two_ids_swapped_is_refused(models: Path, draft: Path):
    swap_two_ids(draft / "tokenizer.json")
    assert f"draft in {draft}" in refusal(models / "oracle", draft=draft)


def test_a_table_counted_with_two_ids_swapped_is_refused(models: Path, draft: Path, tmp_path: Path):
    swap_two_ids(draft / "tokenizer.json")
    tokenizer = Tokenizer(draft / "tokenizer.json")
    document = np.array(PROMPT, dtype=np.uint32)
    write_table(tmp_path / "table", [document], tokenizer.vocab_size, tokenizer.fingerprint)
    assert str(tmp_path / "table") in refusal(models / "oracle", draft2=tmp_path / "table")


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("tensor", ["model.embed_tokens.weight", "model.layers.0.mlp.down_proj.weight"])
def test_a_draft_with_one_weight_that_is_no_number_is_named(
    models: Path, draft: Path, tensor: str, wrong: float
):
    """One value is enough, and is found before any text could differ by it."""
    tensors = load_file(draft / "model.safetensors")
    tensors[tensor][3, 5] = wrong
    save_file(tensors, draft / "model.safetensors", {"format": "pt"})
    message = refusal(models / "oracle", draft=draft)
    assert tensor in message
    assert str(draft) in message


def test_a_gguf_file_with_one_weight_that_is_no_number_is_named(tmp_path: Path):
    """Itself, and not the directory that it is converted to while it is loaded."""
    sound, weights = write_tiny_gguf(tmp_path / "sound.gguf"), tiny_weights()
    weights["model.norm.weight"][3] = float("nan")
    broken = write_tiny_gguf(tmp_path / "broken.gguf", weights=weights)
    for message in (refusal(broken), refusal(sound, draft=broken)):
        assert f"The tensor model.norm.weight in {broken} has" in message


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_draft_cut_short_is_named(models: Path, draft: Path, file: str):
    whole = (draft / file).read_bytes()
    (draft / file).write_bytes(whole[: len(whole) // 2])
    assert str(draft / file) in refusal(models / "oracle", draft=draft)


def test_a_table_cut_short_is_named_and_the_one_in_use_stays(models: Path, tmp_path: Path):
    engine = load(models / "oracle", weights="fp32")
    for name in ("whole", "cut"):
        document = np.array(PROMPT * 20, dtype=np.uint32)
        write_table(tmp_path / name, [document], engine.tokenizer.vocab_size, engine.tokenizer.fingerprint)
    (tmp_path / "cut").write_bytes((tmp_path / "cut").read_bytes()[:-1])
    engine.use_table(tmp_path / "whole")
    expected = text(engine, mode="standard", approximation="trigram")
    with pytest.raises(DraftlineError, match="cut"):
        engine.use_table(tmp_path / "cut")
    assert text(engine, mode="standard", approximation="trigram") == expected
    assert str(tmp_path / "cut") in refusal(models / "oracle", draft2=tmp_path / "cut")
