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
from engine.families import HEAD
from engine.gguf_config import Architecture, architecture_of, names_of, read_config_of, tensor_of
from engine.gguf_header import GgufFile, GgufTensor
from engine.gguf_tokenizer import build_tokenizer
from engine.model_files import replaced_directory

# Quantised twice, a tied matrix differs from itself by some 4 %; two separate ones by over 100 %.
_TIED_DIFFERENCE = 0.2


def convert(gguf: Path, out: Path, progress: Callable[[int, int], None] | None = None) -> None:
    """Write the model in ``gguf`` to the directory ``out``, which is replaced as a whole or not at all.

    progress: called with (bytes written, bytes in all) of the weights.

    Raises:
        DraftlineError: ``gguf`` is damaged, or holds a model or a tokenizer that we do not support.
    """
    source = GgufFile(gguf)
    config = read_config_of(source) | {"tie_word_embeddings": _is_tied(source)}
    tokenizer = build_tokenizer(source.metadata)
    tensors = _named_tensors(source, config)
    with replaced_directory(out) as fresh:
        (fresh / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        tokenizer.save(str(fresh / "tokenizer.json"), pretty=False)
        with (fresh / "model.safetensors").open("wb") as file:
            _write_safetensors(file, source, tensors, config, progress)
            file.flush()
            os.fsync(file.fileno())


def _is_tied(source: GgufFile) -> bool:
    """Whether the head is the embedding: quantisers often store a tied matrix twice, at two precisions."""
    if "output.weight" not in source.tensors:
        return True
    matrices = tensor_of(source, "token_embd.weight"), source.tensors["output.weight"]
    if matrices[0].shape != matrices[1].shape:
        return False
    embedding, head = (
        np.concatenate(list(_dequantized(source.data(matrix)[:1024], matrix))) for matrix in matrices
    )
    return bool(np.linalg.norm(head - embedding) < _TIED_DIFFERENCE * np.linalg.norm(head))


def _named_tensors(source: GgufFile, config: dict[str, Any]) -> dict[str, GgufTensor]:
    """Hugging Face's tensor names -> tensors.

    A tied matrix that is stored twice is taken from its head, which quantisers keep at the higher precision.
    """
    names = names_of(source, config["num_hidden_layers"])
    tensors = {names[name]: tensor for name, tensor in source.tensors.items()}
    if config["tie_word_embeddings"] and f"{HEAD}.weight" in tensors:
        embedding = architecture_of(source).family.embedding
        tensors[f"{embedding}.weight"] = tensors.pop(f"{HEAD}.weight")
    return tensors


def _write_safetensors(
    file: BinaryIO,
    source: GgufFile,
    tensors: dict[str, GgufTensor],
    config: dict[str, Any],
    progress: Callable[[int, int], None] | None,
) -> None:
    """The format: u64 header length, JSON header, data (github.com/huggingface/safetensors#format)."""
    architecture = architecture_of(source)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    total = 0
    for name, tensor in tensors.items():
        dtype, width = ("F16", 2) if len(tensor.shape) > 1 else ("F32", 4)
        end = total + width * int(np.prod(tensor.shape))
        shape = tensor.shape[::-1] if _is_transposed(architecture, tensor) else tensor.shape
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [total, end]}
        total = end
    encoded = json.dumps(header).encode("utf-8")
    encoded += b" " * (-len(encoded) % 8)
    file.write(struct.pack("<Q", len(encoded)) + encoded)
    done = 0
    for name, tensor in tensors.items():
        data = source.data(tensor)
        if architecture.paired and "q_proj" in name:
            data = _unpermute(data, config["num_attention_heads"])
        elif architecture.paired and "k_proj" in name:
            data = _unpermute(data, config["num_key_value_heads"])
        pieces = _dequantized(data, tensor)
        if _is_transposed(architecture, tensor):
            whole = np.concatenate(list(pieces)).reshape(tensor.shape)
            pieces = iter([np.ascontiguousarray(whole.T)])
        for values in pieces:
            done += file.write(values.astype(np.float16 if len(tensor.shape) > 1 else np.float32).data)
            if progress is not None:
                progress(done, total)


def _is_transposed(architecture: Architecture, tensor: GgufTensor) -> bool:
    """Whether Hugging Face keeps it [in, out], as GPT-2's layers; llama.cpp's are all [out, in]."""
    return architecture.family.transposed and len(tensor.shape) == 2 and tensor.name.startswith("blk.")


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
