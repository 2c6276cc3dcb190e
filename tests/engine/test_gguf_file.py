"""A GGUF file becomes a model directory that says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch_file
from safetensors.torch import save_file

from engine.errors import DraftlineError
from engine.gguf_config import ARCHITECTURES
from engine.gguf_file import convert
from engine.tokenizer import Tokenizer
from tests.engine.tiny_models import linear_logits, load_reference, load_tiny, reference_logits, write_model
from tests.tiny_gguf import SPECIAL, TOKENS, UNUSED, tiny_weights, write_gguf_of, write_tiny_gguf

# The ids that transformers' Qwen2Tokenizer gives.
MIXED = "def f(x):\n    return x + 12345  # it's 世界 😀\r\n\n\t\tWE'LL"
MIXED_IDS: list[int] = [
    750,
    282,
    2075,
    982,
    262,
    470,
    856,
    488,
    220,
    16,
    17,
    18,
    19,
    20,
    220,
    671,
    432,
    594,
    220,
    99489,
    90316,
    80823,
    197,
    197,
    12457,
    6,
    4086,
]


def converted(tmp_path: Path, **options: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    convert(write_tiny_gguf(tmp_path / "tiny.gguf", **options), tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text(encoding="utf-8"))
    return config, load_file(tmp_path / "model" / "model.safetensors")


def after_q8(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return dequantize(quantize(values, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)


def test_the_config_has_the_sizes_under_hugging_face_names(tmp_path: Path) -> None:
    config, _ = converted(tmp_path)
    assert config == {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 96,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1e6,
        "vocab_size": len(TOKENS) + 2,
        "tie_word_embeddings": True,
        "bos_token_id": TOKENS.index("<|endoftext|>"),
        "eos_token_id": TOKENS.index("<|endoftext|>"),
        "torch_dtype": "float16",
    }


def test_matrices_are_dequantized_to_fp16_and_vectors_stay_fp32(tmp_path: Path) -> None:
    weights = tiny_weights()
    _, tensors = converted(tmp_path, weights=weights)
    assert tensors.keys() == weights.keys()
    for name, values in weights.items():
        if values.ndim == 1:
            assert tensors[name].dtype == np.float32
            np.testing.assert_array_equal(tensors[name], values)
        else:
            np.testing.assert_array_equal(tensors[name], after_q8(values).astype(np.float16))


@pytest.mark.parametrize("bias", [False, True])
def test_llama_rows_come_back_from_the_order_of_llama_cpp(tmp_path: Path, bias: bool) -> None:
    weights = tiny_weights(bias=bias)
    config, tensors = converted(tmp_path, architecture="llama", pre="smollm", weights=weights)
    assert config["attention_bias"] == bias
    assert config["mlp_bias"] is False
    for name in weights:
        if "q_proj" in name or "k_proj" in name:
            expected = weights[name] if weights[name].ndim == 1 else after_q8(weights[name])
            np.testing.assert_array_equal(tensors[name], expected.astype(tensors[name].dtype))


def test_a_tied_head_that_the_quantiser_stored_again_is_written_once_from_the_finer_copy(
    tmp_path: Path,
) -> None:
    weights = tiny_weights()
    embedding = weights["model.embed_tokens.weight"]
    coarse = dequantize(quantize(embedding, GGMLQuantizationType.Q5_0), GGMLQuantizationType.Q5_0)
    config, tensors = converted(
        tmp_path, weights=weights | {"model.embed_tokens.weight": coarse}, head=embedding
    )
    assert config["tie_word_embeddings"] is True
    assert "lm_head.weight" not in tensors
    np.testing.assert_array_equal(
        tensors["model.embed_tokens.weight"], after_q8(embedding).astype(np.float16)
    )


def test_a_head_of_its_own_is_kept(tmp_path: Path) -> None:
    head = tiny_weights(seed=1)["model.embed_tokens.weight"]
    config, tensors = converted(tmp_path, head=head)
    assert config["tie_word_embeddings"] is False
    np.testing.assert_array_equal(tensors["lm_head.weight"], after_q8(head).astype(np.float16))


def test_the_tokenizer_keeps_ids_and_marks_control_tokens_special(tmp_path: Path) -> None:
    converted(tmp_path)
    tokenizer = Tokenizer(tmp_path / "model" / "tokenizer.json")
    assert tokenizer.special == {token: TOKENS.index(token) for token in SPECIAL}
    assert tokenizer.vocab_size == len(TOKENS)
    assert tokenizer.encode("\n\nint") == [TOKENS.index(token) for token in ("ĊĊ", "in", "t")]


@pytest.mark.parametrize(
    ("architecture", "pre", "text", "tokens"),
    [
        ("qwen2", "qwen2", "12", ["1", "2"]),  # digits stand alone
        ("llama", "smollm", "12", ["1", "2"]),
        ("llama", "starcoder", "12", ["1", "2"]),
        ("llama", "refact", "12", ["1", "2"]),
        ("llama", "gpt-2", "12", ["12"]),
        ("qwen2", "qwen2", "  1", ["Ġ", "Ġ", "1"]),  # digits take no space, but the run was split
        ("llama", "smollm", "  1", ["ĠĠ", "1"]),  # digits were cut out before the run was split
        ("llama", "gpt-2", "  1", ["Ġ", "Ġ", "1"]),
        ("qwen2", "qwen2", "e\u0301", ["Ã", "©"]),  # composed by NFC
        ("llama", "gpt-2", "e\u0301", ["e", "Ì", "ģ"]),
        ("qwen2", "qwen2", "  t", ["Ġ", "Ġt"]),  # a run of spaces leaves its last to the word
        ("llama", "gpt-2", "  t", ["Ġ", "Ġt"]),
    ],
)
def test_text_is_split_as_the_family_splits_it(
    tmp_path: Path, architecture: str, pre: str, text: str, tokens: list[str]
) -> None:
    converted(tmp_path, architecture=architecture, pre=pre)
    tokenizer = Tokenizer(tmp_path / "model" / "tokenizer.json")
    assert [TOKENS[token_id] for token_id in tokenizer.encode(text)] == tokens


@pytest.fixture(scope="module")
def gpt2_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("gpt2")
    converted(folder, architecture="llama", pre="gpt-2")
    return Tokenizer(folder / "model" / "tokenizer.json")


@given(st.text())
@settings(deadline=None)
def test_any_text_comes_back_from_its_ids(gpt2_tokenizer: Tokenizer, text: str) -> None:
    assert gpt2_tokenizer.decode(gpt2_tokenizer.encode(text)) == text


FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {  # model_type, pre-tokeniser, sizes
    "qwen2": ("qwen2", "qwen2", {}),
    "llama": ("llama", "smollm", {"attention_bias": True, "mlp_bias": True}),
    "qwen3": ("qwen3", "qwen2", {"head_dim": 24}),
    "granite": (
        "granite",
        "refact",
        {
            "embedding_multiplier": 12.0,
            "attention_multiplier": 0.1,
            "residual_multiplier": 0.22,
            "logits_scaling": 8.0,
            "tie_word_embeddings": True,
        },
    ),
    "starcoder2": ("starcoder2", "starcoder", {"tie_word_embeddings": True}),
    "gpt2": ("gpt2", "gpt-2", {"tie_word_embeddings": True}),
    "starcoder": ("gpt_bigcode", "starcoder", {}),
}


def assert_same_logits(gguf: Path, directory: Path) -> None:
    """In F32 nothing is lost but what fp16 rounds, which the directory's matrices are spared."""
    rounded = {
        name: values.half().float() if values.ndim == 2 else values
        for name, values in load_torch_file(directory / "model.safetensors").items()
    }
    save_file(rounded, directory / "model.safetensors", {"format": "pt"})
    ours = load_tiny(gguf)
    text = [5, 80, 3, 9, 200, 7, 11, 250, 64]
    theirs = reference_logits(load_reference(directory), text)[:, : len(TOKENS)]
    error = (linear_logits(ours, text, ours.new_cache(64)) - theirs).abs().max() / theirs.abs().max()
    assert float(error) < 1e-5


@pytest.mark.parametrize("architecture", FAMILIES)
def test_a_file_of_every_family_computes_what_its_directory_computes(
    tmp_path: Path, architecture: str
) -> None:
    model_type, pre, sizes = FAMILIES[architecture]
    directory = write_model(tmp_path / "model", model_type, vocab_size=len(TOKENS + UNUSED), **sizes)
    gguf = write_gguf_of(tmp_path / "tiny.gguf", directory, architecture, pre)
    assert_same_logits(gguf, directory)


def test_every_architecture_is_tested() -> None:
    assert FAMILIES.keys() == ARCHITECTURES.keys()


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 48, "rope_theta": 1e4},
    ],
)
def test_scaled_rotary_positions_stay_scaled(tmp_path: Path, rope: dict[str, Any]) -> None:
    directory = write_model(
        tmp_path / "model", "llama", vocab_size=len(TOKENS + UNUSED), rope_parameters=rope
    )
    assert_same_logits(write_gguf_of(tmp_path / "tiny.gguf", directory, "llama", "gpt-2"), directory)


def test_the_older_key_of_evenly_scaled_positions_is_read(tmp_path: Path) -> None:
    config, _ = converted(tmp_path, overrides={"qwen2.rope.scale_linear": 4})
    assert config["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    convert(
        write_tiny_gguf(tmp_path / "tiny.gguf"),
        tmp_path / "model",
        lambda done, total: seen.append((done, total)),
    )
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"architecture": "gemma2"}, r"architecture gemma2.*qwen2, llama"),
        ({"pre": "llama-bpe"}, r"gpt2/llama-bpe.*qwen2, smollm, starcoder, refact, gpt-2"),
        ({"leave_out": ("blk.1.ffn_up.weight",)}, r"lacks the tensor blk\.1\.ffn_up\.weight"),
        ({"leave_out": ("token_embd.weight",)}, r"lacks the tensor token_embd\.weight"),
        ({"weights": tiny_weights() | {"rope_freqs": np.ones(8, np.float32)}}, r"unsupported.*rope_freqs"),
        ({"overrides": {"qwen2.rope.scaling.type": "longrope"}}, r"does not say its qwen2\.rope\.scaling"),
        (
            {"overrides": {"qwen2.rope.scaling.type": "longrope", "qwen2.rope.scaling.factor": 2}},
            r"scales its rotary positions as longrope",
        ),
        ({"overrides": {"qwen2.rope.scaling.type": "linear"}}, r"does not say its qwen2\.rope\.scaling"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DraftlineError, match=sentence):
        converted(tmp_path, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.gguf"]


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = write_tiny_gguf(tmp_path / "whole.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for size in [0, 3, 4, 10, *range(24, len(whole), len(whole) // 97), len(whole) - 1]:
        cut.write_bytes(whole[:size])
        with pytest.raises(DraftlineError, match="download it again"):
            convert(cut, tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("content", [b"PK\x03\x04" + b"x" * 100, b"GGUF" + b"\xff" * 100])
def test_another_kind_of_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.gguf").write_bytes(content)
    with pytest.raises(DraftlineError, match="no readable GGUF file"):
        convert(tmp_path / "other.gguf", tmp_path / "model")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftlineError, match="cannot be read"):
        convert(tmp_path / "nowhere.gguf", tmp_path / "model")


def test_an_interrupted_conversion_leaves_the_old_directory(tmp_path: Path) -> None:
    gguf, model = write_tiny_gguf(tmp_path / "tiny.gguf"), tmp_path / "model"
    convert(gguf, model)
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(gguf, model, interrupt)
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "tiny.gguf"]


def test_converting_again_replaces_the_directory(tmp_path: Path) -> None:
    converted(tmp_path)
    (tmp_path / "model" / "stray").touch()
    converted(tmp_path, weights=tiny_weights(seed=1))
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


@pytest.mark.slow
def test_the_default_model_keeps_the_vendors_token_ids(default_model: Path) -> None:
    tokenizer = Tokenizer(default_model / "tokenizer.json")
    ids = {
        "<|endoftext|>": 151643,
        "<|fim_prefix|>": 151659,
        "<|fim_middle|>": 151660,
        "<|file_sep|>": 151664,
    }
    assert ids.items() <= tokenizer.special.items()
    assert tokenizer.vocab_size == 151665
    assert tokenizer.encode(MIXED) == MIXED_IDS
    assert tokenizer.decode(MIXED_IDS) == MIXED
