"""A model directory or a GGUF file -> a Transformer and its tokenizer; refuses what it does not know.

A directory holds config.json, tokenizer.json and safetensors, as Hugging Face writes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from engine import huge_pages
from engine.errors import DraftlineError
from engine.gguf_file import convert
from engine.linear import Linear, choose_linear
from engine.model_files import Tensors, read_json
from engine.tokenizer import Tokenizer
from engine.transformer import Config, Layer, Transformer, pair_up
from engine.trimmed_vocabulary import EMBEDDING, HEAD, TrimmedVocabulary, read_trimmed_vocabulary

Weights = Literal["fp32", "bf16", "fp16", "int8"]
WEIGHTS: tuple[Weights, ...] = ("fp32", "bf16", "fp16", "int8")
FAMILIES = ("llama", "qwen2")


@dataclass(frozen=True)
class Checkpoint:
    """A model ready to run. eos_ids: the token ids after which the text is over. trimmed: whether it can say
    only some of the tokenizer's tokens."""

    transformer: Transformer
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    trimmed: bool


def load_checkpoint(
    path: Path, weights: Weights, on_progress: Callable[[float], None] | None = None
) -> Checkpoint:
    """Load ``path``, a model directory or a GGUF file (converted in a temporary folder first).

    on_progress: called with the fraction done, 0 to 1.

    Raises:
        DraftlineError: the path, its architecture or its tokenizer is not one we can run.
    """
    with _directory(path) as directory:
        opened = _open(directory)
        transformer = _load_transformer(opened, weights, on_progress)
        huge_pages.collapse()
        return Checkpoint(transformer, opened.tokenizer, opened.eos_ids, opened.trimmed is not None)


def check_directory(directory: Path) -> None:
    """Read all of a model directory but the tensors themselves.

    Raises:
        DraftlineError: a file is missing or cut short, or the model is not one that we can run.
    """
    _open(directory)


@dataclass(frozen=True)
class _Opened:
    """A model directory of which all has been read but the weights."""

    config: Config
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    tensors: Tensors
    trimmed: TrimmedVocabulary | None


def _open(directory: Path) -> _Opened:
    description = read_json(directory / "config.json")
    config = read_config(description, directory)
    tokenizer = Tokenizer(directory / "tokenizer.json")
    eos_ids = _eos_ids(directory, description, tokenizer)
    # Matrices may have more rows than there are tokens, but the model's own end of a text must be one.
    if eos_ids and not 0 <= eos_ids[0] <= eos_ids[-1] < tokenizer.vocab_size:
        raise DraftlineError(
            f"The model in {directory} ends a text with token {eos_ids[-1]}, but its tokenizer has only "
            f"{tokenizer.vocab_size} tokens: take both from the same model."
        )
    tensors = Tensors(directory)
    trimmed = read_trimmed_vocabulary(tensors, config.vocab_size - 1, tokenizer.vocab_size)
    if trimmed is None and tokenizer.vocab_size > config.vocab_size:
        raise DraftlineError(
            f"The tokenizer in {directory} has {tokenizer.vocab_size} tokens but the model only "
            f"{config.vocab_size}: take both from the same model."
        )
    return _Opened(config, tokenizer, eos_ids, tensors, trimmed)


def read_config(description: dict[str, Any], source: Path) -> Config:
    """A Hugging Face config.json -> Config.

    Raises:
        DraftlineError: an architecture or a variant of it that the forward does not compute.
    """
    family = description.get("model_type")
    if family not in FAMILIES:
        raise DraftlineError(
            f"{source} holds a model of architecture {family!r}, which Draftline does not run; it runs "
            f"{' and '.join(FAMILIES)}."
        )
    try:
        rope = description.get("rope_parameters") or description.get("rope_scaling") or {}
        heads = int(description["num_attention_heads"])
        bias = bool(description.get("attention_bias", family == "qwen2"))
        config = Config(
            family=family,
            layers=int(description["num_hidden_layers"]),
            hidden=int(description["hidden_size"]),
            heads=heads,
            kv_heads=int(description.get("num_key_value_heads") or heads),
            head_dim=int(description.get("head_dim") or description["hidden_size"] // heads),
            intermediate=int(description["intermediate_size"]),
            norm_eps=float(description["rms_norm_eps"]),
            rope_theta=float(rope.get("rope_theta") or description.get("rope_theta") or 10000.0),
            vocab_size=int(description["vocab_size"]),
            max_positions=int(description["max_position_embeddings"]),
            qkv_bias=family == "qwen2" or bias,
            output_bias=family == "llama" and bias,
            mlp_bias=bool(description.get("mlp_bias", False)),
            tied_head=bool(description.get("tie_word_embeddings", False)),
        )
        if min(config.layers, config.heads, config.kv_heads, config.head_dim, config.max_positions) < 1:
            raise ValueError("a size below 1")
        if config.heads % config.kv_heads or config.head_dim % 2:
            raise ValueError("heads that cannot be grouped or rotated")
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise DraftlineError(
            f"{source / 'config.json'} lacks or garbles a value ({error}); fetch the model again."
        ) from error
    unsupported = {
        "quantized weights": description.get("quantization_config") is not None,
        "rope scaling": rope.get("rope_type", rope.get("type", "default")) != "default",
        "sliding-window attention": bool(description.get("use_sliding_window")),
        f"the activation {description.get('hidden_act')}": description.get("hidden_act", "silu") != "silu",
    }
    for feature, used in unsupported.items():
        if used:
            raise DraftlineError(
                f"The model in {source} uses {feature}, which Draftline does not compute yet; "
                "choose another model."
            )
    return config


def _load_transformer(
    opened: _Opened, weights: Weights, on_progress: Callable[[float], None] | None
) -> Transformer:
    config, tensors = opened.config, opened.tensors
    packed = choose_linear(weights)
    hidden, head_dim, intermediate = config.hidden, config.head_dim, config.intermediate

    def linear(names: list[str], outs: list[int], width: int, biased: bool) -> Linear:
        """Matrices that read the same input, as one product."""

        def stacked(kind: str, *width: int) -> Tensor:
            parts = [
                tensors.get(f"{name}.{kind}", out, *width) for name, out in zip(names, outs, strict=True)
            ]
            rotated = (".q_proj", ".k_proj")
            return torch.cat(
                [
                    pair_up(part, head_dim) if name.endswith(rotated) else part
                    for name, part in zip(names, parts, strict=True)
                ]
            )

        return packed(stacked("weight", width), stacked("bias") if biased else None)

    def norm(name: str) -> Tensor:
        return tensors.get(f"{name}.weight", hidden).float()

    @torch.inference_mode()
    def layer(index: int) -> Layer:
        prefix = f"model.layers.{index}"
        queries, keys = config.heads * head_dim, config.kv_heads * head_dim
        return Layer(
            input_norm=norm(f"{prefix}.input_layernorm"),
            qkv=linear(
                [f"{prefix}.self_attn.{name}_proj" for name in "qkv"],
                [queries, keys, keys],
                hidden,
                config.qkv_bias,
            ),
            output=linear([f"{prefix}.self_attn.o_proj"], [hidden], queries, config.output_bias),
            post_norm=norm(f"{prefix}.post_attention_layernorm"),
            gate_up=linear(
                [f"{prefix}.mlp.gate_proj", f"{prefix}.mlp.up_proj"],
                [intermediate, intermediate],
                hidden,
                config.mlp_bias,
            ),
            down=linear([f"{prefix}.mlp.down_proj"], [hidden], intermediate, config.mlp_bias),
        )

    embedding = tensors.get(EMBEDDING, config.vocab_size, hidden)
    trimmed = opened.trimmed is not None
    matrix = embedding if config.tied_head else tensors.get(HEAD, config.vocab_size - trimmed, hidden)

    @torch.inference_mode()
    def head() -> Linear:
        # rows that pad the vocabulary stand for no token: they could only win by accident
        return packed(matrix[: config.vocab_size - 1 if trimmed else opened.tokenizer.vocab_size], None)

    layers = []
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # packing a matrix keeps only one core busy
        packing_head = pool.submit(head)  # the largest first
        for built in pool.map(layer, range(config.layers)):
            layers.append(built)
            if on_progress:
                on_progress(len(layers) / (config.layers + 1))
    if on_progress:
        on_progress(1.0)
    final_norm, packed_head = norm("model.norm"), packing_head.result()
    return Transformer(config, embedding, layers, final_norm, packed_head, opened.trimmed)


def _eos_ids(directory: Path, description: dict[str, Any], tokenizer: Tokenizer) -> tuple[int, ...]:
    """What generation_config.json or config.json name as the end of a text; one id or several."""
    generation = directory / "generation_config.json"
    source, named = directory / "config.json", description.get("eos_token_id")
    if generation.exists():
        source, named = generation, read_json(generation).get("eos_token_id", named)
    ids = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(token_id, int) for token_id in ids):
        raise DraftlineError(f"{source} names {named!r} as the end of a text; fetch the model again.")
    ids = ids + [tokenizer.special[name] for name in ("<|endoftext|>",) if name in tokenizer.special]
    return tuple(sorted(set(ids)))


@contextmanager
def _directory(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
    elif path.is_file():
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            converted = Path(folder) / "model"
            convert(path, converted)
            yield converted
    else:
        raise DraftlineError(f"There is no model at {path}; give a model directory or a GGUF file.")
