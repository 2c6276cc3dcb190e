"""A GGUF file of some 100 kB, with a byte-level vocabulary: what a vendor's file has, in small."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers.pre_tokenizers import ByteLevel

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED_FORWARD = 64, 2, 4, 2, 96
MERGES = ["Ġ Ġ", "i n", "Ġ t", "ĠĠ ĠĠ", "Ċ Ċ", "1 2"]
SPECIAL = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]
TOKENS = [*sorted(ByteLevel.alphabet()), *(merge.replace(" ", "") for merge in MERGES), *SPECIAL]
UNUSED = ["[PAD0]", "[PAD1]"]
GPT2_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "n_inner": "intermediate_size",
}
_MODELS = {name: model for model, name in gguf.MODEL_ARCH_NAMES.items()}


def tiny_weights(seed: int = 0, bias: bool = True) -> dict[str, NDArray[np.float32]]:
    """Random tensors by Hugging Face name, float32 [out, in] or [out]."""
    random = np.random.default_rng(seed)
    head = HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (len(TOKENS + UNUSED), HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        sizes = {"q": (HEADS * head, HIDDEN), "k": (KV_HEADS * head, HIDDEN), "v": (KV_HEADS * head, HIDDEN)}
        for name, shape in sizes.items():
            shapes[f"model.layers.{layer}.self_attn.{name}_proj.weight"] = shape
            if bias:
                shapes[f"model.layers.{layer}.self_attn.{name}_proj.bias"] = shape[:1]
        shapes |= {
            f"model.layers.{layer}.self_attn.o_proj.weight": (HIDDEN, HEADS * head),
            f"model.layers.{layer}.mlp.gate_proj.weight": (FEED_FORWARD, HIDDEN),
            f"model.layers.{layer}.mlp.up_proj.weight": (FEED_FORWARD, HIDDEN),
            f"model.layers.{layer}.mlp.down_proj.weight": (HIDDEN, FEED_FORWARD),
            f"model.layers.{layer}.input_layernorm.weight": (HIDDEN,),
            f"model.layers.{layer}.post_attention_layernorm.weight": (HIDDEN,),
        }
    return {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}


def llama_cpp_order(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """``permute`` of llama.cpp's convert_hf_to_gguf.py, as published."""
    return (
        matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:])
        .swapaxes(1, 2)
        .reshape(matrix.shape)
    )


def write_tiny_gguf(
    path: Path,
    architecture: str = "qwen2",
    pre: str = "qwen2",
    weights: Mapping[str, NDArray[np.float32]] | None = None,
    head: NDArray[np.float32] | None = None,
    quantization: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.Q8_0,
    overrides: Mapping[str, Any] | None = None,
    leave_out: tuple[str, ...] = (),
) -> Path:
    """Write the model of ``weights`` as llama.cpp's converter would.

    head: an output matrix of its own. overrides: further metadata, string -> string or int.
    leave_out: GGUF names of tensors to drop.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(1e6)
    writer.add_layer_norm_rms_eps(1e-6)
    _add_tokenizer(writer, pre)
    for key, value in (overrides or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_uint32)(key, value)
    tensors = dict(tiny_weights() if weights is None else weights)
    if head is not None:
        tensors["lm_head.weight"] = head
    for name, values in tensors.items():
        ours = _gguf_name(name)
        if ours in leave_out:
            continue
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            values = llama_cpp_order(values, HEADS if "q_proj" in name else KV_HEADS)
        if values.ndim == 1:
            writer.add_tensor(ours, values)
        else:
            writer.add_tensor(ours, quantize(values, quantization), raw_dtype=quantization)
    return _written(writer, path)


def write_gguf_of(path: Path, directory: Path, architecture: str, pre: str) -> Path:
    """Write a model directory with our vocabulary as llama.cpp's converter would, in float32."""
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config |= {theirs: config[ours] for ours, theirs in GPT2_KEYS.items() if ours in config}
    layers, heads = config["num_hidden_layers"], config["num_attention_heads"]
    kv_heads = 1 if architecture == "starcoder" else config.get("num_key_value_heads", heads)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(layers)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        writer.add_layer_norm_eps(config.get("norm_epsilon") or config["layer_norm_epsilon"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
    if rope := config.get("rope_parameters"):
        writer.add_rope_freq_base(rope["rope_theta"])
        if rope["rope_type"] in ("linear", "yarn"):
            writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
            writer.add_rope_scaling_factor(rope["factor"])
        if rope["rope_type"] == "yarn":
            writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if architecture == "granite":
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    _add_tokenizer(writer, pre)
    names = gguf.get_tensor_name_map(_MODELS[architecture], layers)
    for name, values in load_file(directory / "model.safetensors").items():
        if architecture == "gpt2" and name.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            values = np.ascontiguousarray(values.T)
        if architecture in ("llama", "granite") and ("q_proj" in name or "k_proj" in name):
            values = np.ascontiguousarray(llama_cpp_order(values, heads if "q_proj" in name else kv_heads))
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), values)
    return _written(writer, path)


def _add_tokenizer(writer: gguf.GGUFWriter, pre: str) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS + UNUSED)
    ordinary = len(TOKENS) - len(SPECIAL)
    # The last special token is user-defined, as the FIM tokens of some files are.
    writer.add_token_types([1] * ordinary + [3] * (len(SPECIAL) - 1) + [4] + [5] * len(UNUSED))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(TOKENS.index("<|endoftext|>"))
    writer.add_eos_token_id(TOKENS.index("<|endoftext|>"))


def _written(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _gguf_name(name: str) -> str:
    for theirs, ours in (
        ("model.layers.", "blk."),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
    ):
        name = name.replace(theirs, ours)
    return name
