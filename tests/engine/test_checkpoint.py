"""What loads: directories and GGUF files of the families we compute. All else is refused in one sentence."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.checkpoint import load_checkpoint
from engine.errors import DraftlineError
from engine.families import FAMILIES
from tests import tiny_gguf
from tests.engine.tiny_models import (
    SIZES,
    TOKENS,
    change_config,
    linear_logits,
    load_reference,
    reference_logits,
    write_model,
    write_tokenizer,
)

TEXT = [5, 80, 3, 9, 200, 7]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "sound")


@pytest.fixture
def model(sound: Path, tmp_path: Path) -> Path:
    """A model directory to be spoilt."""
    return Path(shutil.copytree(sound, tmp_path / "model"))


def logits(path: Path) -> torch.Tensor:
    transformer = load_checkpoint(path, "fp32").transformer
    return linear_logits(transformer, TEXT, transformer.new_cache(64))


def refusal(path: Path) -> str:
    with pytest.raises(DraftlineError) as raised:
        load_checkpoint(path, "int8")
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def change_tensors(directory: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


# What loads


def test_progress_rises_to_the_whole(sound: Path):
    seen: list[float] = []
    load_checkpoint(sound, "fp32", seen.append)
    assert seen == sorted(seen)
    assert 0 < seen[0] < seen[-1] == 1.0


def test_loading_leaves_the_number_of_threads_as_it_was(model: Path, set_threads):
    set_threads(2)
    load_checkpoint(model, "int8")
    with ThreadPoolExecutor(1) as pool:
        assert [torch.get_num_threads(), pool.submit(torch.get_num_threads).result()] == [2, 2]


def test_sharded_safetensors_are_one_model(sound: Path, model: Path):
    tensors = load_file(model / "model.safetensors")
    (model / "model.safetensors").unlink()
    names = sorted(tensors)
    shards = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, members in shards.items():
        save_file({name: tensors[name] for name in members}, model / file)
    places = {name: file for file, members in shards.items() for name in members}
    index = {"metadata": {}, "weight_map": places}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert torch.equal(logits(model), logits(sound))


@pytest.mark.parametrize("family", ["gpt2", "gpt_bigcode"])
def test_tensors_may_leave_out_the_first_word_of_their_names(tmp_path: Path, family):
    """As in GPT-2's own files, which hold the causal masks too."""
    whole = write_model(tmp_path / "whole", family)
    older = Path(shutil.copytree(whole, tmp_path / "older"))
    tensors = load_file(whole / "model.safetensors")
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 192, 192).tril()
    save_file(tensors, older / "model.safetensors")
    assert torch.equal(logits(older), logits(whole))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_read_as_it_is(model: Path, dtype):
    change_tensors(model, lambda tensors: tensors.update({n: t.to(dtype) for n, t in tensors.items()}))
    theirs = reference_logits(load_reference(model), TEXT)[:, :TOKENS]
    torch.testing.assert_close(logits(model), theirs, rtol=1e-4, atol=1e-4 * float(theirs.abs().max()))


def test_a_tied_head_needs_no_matrix_of_its_own(tmp_path: Path):
    model = write_model(tmp_path / "model", tie_word_embeddings=True)
    assert "lm_head.weight" not in load_file(model / "model.safetensors")
    assert logits(model).shape == (len(TEXT), TOKENS)


def test_missing_values_take_the_familys_defaults(model: Path):
    """As older files leave them out."""
    whole = logits(model)
    change_config(model, remove=["rope_parameters", "head_dim", "hidden_act", "layer_types"], rope_theta=1e4)
    assert torch.equal(logits(model), whole)


def test_a_pickle_is_never_opened(model: Path, tmp_path: Path):
    """Not even where it is all there is: it could run anything."""
    trace = tmp_path / "trace"

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return (trace.touch, ())

    for name in ("pytorch_model.bin", "model.bin", "model.pt", "consolidated.00.pth"):
        (model / name).write_bytes(pickle.dumps(Trap()))
    logits(model)
    (model / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(model)
    assert not trace.exists()


@pytest.mark.parametrize(
    ("generation", "config", "expected"),
    [
        (None, None, {256}),  # the tokenizer's own
        (None, 7, {7, 256}),
        ([8, 9], 7, {8, 9, 256}),
        (8, None, {8, 256}),
    ],
)
def test_the_ids_that_end_a_text_are_those_that_are_named(model: Path, generation, config, expected):
    change_config(model, eos_token_id=config)
    (model / "generation_config.json").unlink(missing_ok=True)
    if generation is not None:
        named = json.dumps({"eos_token_id": generation})
        (model / "generation_config.json").write_text(named, encoding="utf-8")
    assert set(load_checkpoint(model, "fp32").eos_ids) == expected


def test_a_generation_config_that_names_no_end_hides_none(model: Path):
    change_config(model, eos_token_id=7)
    (model / "generation_config.json").write_text('{"temperature": 0.7}', encoding="utf-8")
    assert 7 in load_checkpoint(model, "fp32").eos_ids


def test_a_gguf_file_loads_too(tmp_path: Path):
    """What it computes: test_gguf_file.py."""
    assert logits(tiny_gguf.write_tiny_gguf(tmp_path / "tiny.gguf")).shape == (6, len(tiny_gguf.TOKENS))


# What is refused


def test_an_unknown_architecture_is_told_the_known_ones(model: Path):
    change_config(model, model_type="mamba")
    message = refusal(model)
    assert "mamba" in message
    assert all(family in message for family in FAMILIES)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(model: Path, file):
    (model / file).unlink()
    assert file in refusal(model)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "generation_config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1, 2]", b"\xff\xfe"])
def test_a_garbled_file_is_named(model: Path, file, content):
    (model / file).write_bytes(content)
    assert file in refusal(model)


def test_an_empty_directory_is_no_model(tmp_path: Path):
    assert "config.json" in refusal(tmp_path)


def test_a_missing_path_is_named(tmp_path: Path):
    assert "nowhere" in refusal(tmp_path / "nowhere")


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path):
    (tmp_path / "model.txt").write_text("not a model", encoding="utf-8")
    assert "model.txt" in refusal(tmp_path / "model.txt")


@pytest.mark.parametrize("kept", [0, 4, 8, 100, -1, -4000])
def test_truncated_safetensors_are_refused(model: Path, kept):
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    assert "model.safetensors" in refusal(model)


@pytest.mark.parametrize(
    "name",
    [
        "model.embed_tokens.weight",
        "lm_head.weight",
        "model.norm.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.layers.0.self_attn.v_proj.bias",
        "model.layers.1.mlp.down_proj.weight",
        "model.layers.0.post_attention_layernorm.weight",
    ],
)
def test_a_missing_tensor_is_named(model: Path, name):
    change_tensors(model, lambda tensors: tensors.pop(name))
    assert name in refusal(model)


@pytest.mark.parametrize(
    "name", ["model.embed_tokens.weight", "model.norm.weight", "model.layers.1.self_attn.k_proj.bias"]
)
def test_a_tensor_of_another_shape_is_named(model: Path, name):
    change_tensors(model, lambda tensors: tensors.update({name: tensors[name][:-1].clone()}))
    assert name in refusal(model)


@pytest.mark.parametrize(
    ("size", "value"), [("hidden_size", 32), ("num_hidden_layers", 3), ("num_key_value_heads", 1)]
)
def test_a_config_that_does_not_fit_the_tensors_is_refused(model: Path, size, value):
    change_config(model, **{size: value})
    assert "tensor" in refusal(model)


def test_a_missing_shard_is_named(model: Path):
    index = {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert "model-00002-of-00002.safetensors" in refusal(model)


@pytest.mark.parametrize("index", [{}, {"weight_map": None}, {"weight_map": {"model.norm.weight": 3}}])
def test_a_garbled_index_is_named(model: Path, index):
    (model / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    assert "model.safetensors.index.json" in refusal(model)


@pytest.mark.parametrize("token_id", [TOKENS, -1, [0, TOKENS]])
def test_a_tokenizer_without_the_models_own_end_of_a_text_is_refused(model: Path, token_id):
    (model / "generation_config.json").unlink(missing_ok=True)
    change_config(model, eos_token_id=token_id)
    assert "take both from the same model" in refusal(model)


def test_a_tokenizer_larger_than_the_vocabulary_is_refused(model: Path):
    extra = [f"<|extra_{index}|>" for index in range(SIZES["vocab_size"])]
    write_tokenizer(model / "tokenizer.json", extra)
    assert f"{256 + len(extra)} tokens" in refusal(model)


@pytest.mark.parametrize(
    "values", [{"num_attention_heads": 0}, {"hidden_size": None}, {"eos_token_id": "end"}]
)
def test_a_config_with_an_impossible_value_is_refused(model: Path, values):
    (model / "generation_config.json").unlink()
    change_config(model, **values)
    assert "config.json" in refusal(model)


def test_a_config_without_a_size_names_it(model: Path):
    change_config(model, remove=["intermediate_size"])
    assert "intermediate_size" in refusal(model)
