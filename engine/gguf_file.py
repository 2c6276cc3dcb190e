"""A GGUF file -> a model directory: config.json, tokenizer.json, model.safetensors, with Hugging Face names.

Matrices become fp16, vectors stay fp32. One tensor at a time is in memory.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from gguf.quants import dequantize

from engine.errors import DraftlineError
from engine.gguf_header import GgufFile, GgufTensor
from engine.gguf_tokenizer import build_tokenizer
from engine.model_files import replaced_directory

_ARCHITECTURES = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
# Quantised twice, a tied matrix differs from itself by some 4 %; two separate ones by over 100 %.
_TIED_DIFFERENCE = 0.2


def convert(gguf: Path, out: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Write the model in ``gguf`` to the directory ``out``, which is replaced as a whole or not at all.

    progress: called with (bytes written, bytes in all) of the weights.

    Raises:
        DraftlineError: ``gguf`` is damaged, or holds a model or a tokenizer that we do not support.
    """
    source = GgufFile(gguf)
    config = _config(source)
    tokenizer = build_tokenizer(source.metadata)
    tensors = _named_tensors(source, config)
    with replaced_directory(out) as fresh:
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer.save(str(fresh / "tokenizer.json"), pretty=False)
        with (fresh / "model.safetensors").open("wb") as file:
            _write_safetensors(file, source, tensors, config, progress)
            file.flush()
            os.fsync(file.fileno())


def _config(source: GgufFile) -> dict[str, Any]:
    """Hugging Face's names for the sizes in the metadata."""
    architecture = source.metadata.get("general.architecture")
    if architecture not in _ARCHITECTURES:
        raise DraftlineError(
            f"{source.path} holds a model of the architecture {architecture}, which is not supported; "
            f"take one of {', '.join(_ARCHITECTURES)}."
        )

    def value(key: str, default: Any = None) -> Any:
        found = source.metadata.get(f"{architecture}.{key}", default)
        if found is None:
            raise DraftlineError(f"{source.path} does not say its {architecture}.{key}; download it again.")
        return found

    if value("rope.scaling.type", "none") != "none":
        raise DraftlineError(
            f"{source.path} scales its rotary positions, which is not supported; take another."
        )
    heads = value("attention.head_count")
    config: dict[str, Any] = {
        "architectures": [_ARCHITECTURES[architecture]],
        "model_type": architecture,
        "hidden_act": "silu",
        "hidden_size": value("embedding_length"),
        "num_hidden_layers": value("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": value("attention.head_count_kv", heads),
        "intermediate_size": value("feed_forward_length"),
        "max_position_embeddings": value("context_length"),
        "rms_norm_eps": _shortest(value("attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(value("rope.freq_base", 10000.0)),
        "vocab_size": _tensor(source, "token_embd.weight").shape[0],
        "attention_bias": "blk.0.attn_q.bias" in source.tensors,
        "tie_word_embeddings": _is_tied(source),
        "bos_token_id": source.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.metadata.get("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float16",
    }
    if head_dim := value("attention.key_length", 0):
        config["head_dim"] = head_dim
    return config


def _shortest(single: float) -> float:
    """What the vendor wrote (1e-06) before it went through float32 (9.999999974752427e-07)."""
    return float(str(np.float32(single)))


def _tensor(source: GgufFile, name: str) -> GgufTensor:
    if name not in source.tensors:
        raise DraftlineError(f"{source.path} lacks the tensor {name}; download it again.")
    return source.tensors[name]


def _is_tied(source: GgufFile) -> bool:
    """Whether the head is the embedding: quantisers often store a tied matrix twice, at two precisions."""
    if "output.weight" not in source.tensors:
        return True
    matrices = _tensor(source, "token_embd.weight"), source.tensors["output.weight"]
    if matrices[0].shape != matrices[1].shape:
        return False
    embedding, head = (
        np.concatenate(list(_dequantized(source.data(matrix)[:1024], matrix))) for matrix in matrices
    )
    return bool(np.linalg.norm(head - embedding) < _TIED_DIFFERENCE * np.linalg.norm(head))


def _named_tensors(source: GgufFile, config: dict[str, Any]) -> dict[str, GgufTensor]:
    """Hugging Face's tensor names -> tensors; every one of the file is placed and none is missing.

    A tied matrix that is stored twice is taken from its head, which quantisers keep at the higher precision.
    """
    names = dict(_TOP)
    required = {"token_embd.weight", "output_norm.weight"}
    for layer in range(config["num_hidden_layers"]):
        for ours, theirs in _LAYER.items():
            names[f"blk.{layer}.{ours}.weight"] = f"model.layers.{layer}.{theirs}.weight"
            names[f"blk.{layer}.{ours}.bias"] = f"model.layers.{layer}.{theirs}.bias"
            required.add(f"blk.{layer}.{ours}.weight")
    for name in sorted(required):
        _tensor(source, name)
    if unknown := sorted(source.tensors.keys() - names.keys()):
        raise DraftlineError(
            f"{source.path} has tensors of an unsupported kind ({unknown[0]}); take a plain "
            f"{' or '.join(_ARCHITECTURES)} model."
        )
    tensors = {names[name]: tensor for name, tensor in source.tensors.items()}
    if config["tie_word_embeddings"] and "lm_head.weight" in tensors:
        tensors["model.embed_tokens.weight"] = tensors.pop("lm_head.weight")
    return tensors


def _write_safetensors(
    file: BinaryIO,
    source: GgufFile,
    tensors: dict[str, GgufTensor],
    config: dict[str, Any],
    progress: Callable[[int, int], None] | None,
) -> None:
    """The format: u64 header length, JSON header, data (github.com/huggingface/safetensors#format)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for name, tensor in tensors.items():
        dtype, width = ("F16", 2) if len(tensor.shape) > 1 else ("F32", 4)
        end = total + width * int(np.prod(tensor.shape))
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": [total, end]}
        total = end
    encoded = json.dumps(header).encode("utf-8")
    encoded += b" " * (-len(encoded) % 8)
    file.write(struct.pack("<Q", len(encoded)) + encoded)
    done = 0
    for name, tensor in tensors.items():
        data = source.data(tensor)
        if config["model_type"] == "llama" and "q_proj" in name:
            data = _unpermute(data, config["num_attention_heads"])
        elif config["model_type"] == "llama" and "k_proj" in name:
            data = _unpermute(data, config["num_key_value_heads"])
        for values in _dequantized(data, tensor):
            done += file.write(values.astype(np.float16 if len(tensor.shape) > 1 else np.float32).data)
            if progress is not None:
                progress(done, total)


def _unpermute(rows: npt.NDArray[np.uint8], heads: int) -> npt.NDArray[np.uint8]:
    """Undo llama.cpp's reordering of a head's rows from halves (as Hugging Face rotates them) to pairs.

    Whole rows move, so their quantised bytes can be moved as they are. The inverse of ``permute`` in
    llama.cpp's convert_hf_to_gguf.py.
    """
    pairs = rows.reshape(heads, rows.shape[0] // heads // 2, 2, rows.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows.shape)


def _dequantized(data: npt.NDArray[np.uint8], tensor: GgufTensor) -> Iterator[npt.NDArray[np.float32]]:
    """The values of ``data``, flat, in pieces of a few million.

    Blocks are independent of rows, so the bytes are dealt out afresh: gguf works on 16 rows at a time, and
    is fastest with some 8,000 values in each (measured: 3 to 6 times faster than with rows of 896).
    """
    flat = data.reshape(-1)
    row = data.shape[1] * max(1, 8192 // tensor.shape[-1])
    piece = 512 * row
    for start in range(0, flat.size, piece):
        part = flat[start : start + piece]
        shape = (-1, row) if part.size % row == 0 else (-1, data.shape[1])
        try:
            yield dequantize(part.reshape(shape), tensor.quantization).reshape(-1)
        except NotImplementedError as error:
            raise DraftlineError(
                f"The quantisation {tensor.quantization.name} of {tensor.name} is not supported; "
                "take a GGUF file in Q8_0, Q4_K_M or F16."
            ) from error
