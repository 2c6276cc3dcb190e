"""A model directory or a GGUF file -> a Transformer and its tokenizer; refuses what it does not know.

A directory holds config.json, tokenizer.json and safetensors, as Hugging Face writes them. Only
safetensors and GGUF are read: neither can run code.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine import huge_pages
from engine.errors import DraftlineError
from engine.gguf_file import convert
from engine.linear import Fp32Linear, Int8Linear, Linear, check_processor
from engine.tokenizer import Tokenizer
from engine.transformer import Config, Layer, Transformer, pair_up

Weights = Literal["fp32", "int8"]
WEIGHTS: tuple[Weights, ...] = ("fp32", "int8")
FAMILIES = ("llama", "qwen2")


@dataclass(frozen=True)
class Checkpoint:
    """A model ready to run. eos_ids: the token ids after which the text is over."""

    transformer: Transformer
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]


def load_checkpoint(
    path: Path, weights: Weights, on_progress: Callable[[float], None] | None = None
) -> Checkpoint:
    """Load ``path``, a model directory or a GGUF file (converted in a temporary folder first).

    on_progress: called with the fraction done, 0 to 1.

    Raises:
        DraftlineError: the path, its architecture or its tokenizer is not one we can run.
    """
    with _directory(path) as directory:
        config, tokenizer, eos_ids = _read_descriptions(directory)
        transformer = _load_transformer(directory, config, tokenizer, weights, on_progress)
        huge_pages.collapse()
        return Checkpoint(transformer, tokenizer, eos_ids)


def check_directory(directory: Path) -> None:
    """Read all of a model directory but the tensors themselves.

    Raises:
        DraftlineError: a file is missing or cut short, or the model is not one that we can run.
    """
    _read_descriptions(directory)
    _Tensors(directory)


def _read_descriptions(directory: Path) -> tuple[Config, Tokenizer, tuple[int, ...]]:
    description = _read_json(directory / "config.json")
    config = read_config(description, directory)
    tokenizer = Tokenizer(directory / "tokenizer.json")
    if tokenizer.vocab_size > config.vocab_size:
        raise DraftlineError(
            f"The tokenizer in {directory} has {tokenizer.vocab_size} tokens but the model only "
            f"{config.vocab_size}: take both from the same model."
        )
    eos_ids = _eos_ids(directory, description, tokenizer)
    # Matrices may have more rows than there are tokens, but the model's own end of a text must be one.
    if eos_ids and not 0 <= eos_ids[0] <= eos_ids[-1] < tokenizer.vocab_size:
        raise DraftlineError(
            f"The model in {directory} ends a text with token {eos_ids[-1]}, but its tokenizer has only "
            f"{tokenizer.vocab_size} tokens: take both from the same model."
        )
    return config, tokenizer, eos_ids


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


class _Tensors:
    """Every tensor of a directory's safetensors files, by name."""

    def __init__(self, directory: Path) -> None:
        index = directory / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if index.exists():
            places = _read_json(index).get("weight_map")
            if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
                raise DraftlineError(f"{index} does not say where each tensor is; fetch the model again.")
            names = sorted(set(places.values()))
        self._directory = directory
        self._files: dict[str, Any] = {}
        for name in names:
            path = directory / name
            try:
                opened = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise DraftlineError(
                    f"{path} cannot be read as safetensors ({error}); fetch the model again with "
                    "`model-setup fetch`."
                ) from error
            self._files.update(dict.fromkeys(list(opened.keys()), opened))  # type: ignore[no-untyped-call]

    def get(self, name: str, *shape: int) -> Tensor:
        """The tensor ``name``, which must have ``shape``."""
        if name not in self._files:
            raise DraftlineError(
                f"The model in {self._directory} has no tensor {name}; fetch the model again."
            )
        tensor: Tensor = self._files[name].get_tensor(name)
        if tensor.shape != shape:
            raise DraftlineError(
                f"The tensor {name} in {self._directory} has shape {list(tensor.shape)} where its "
                f"config.json says {list(shape)}; fetch the model again."
            )
        return tensor


def _load_transformer(
    directory: Path,
    config: Config,
    tokenizer: Tokenizer,
    weights: Weights,
    on_progress: Callable[[float], None] | None,
) -> Transformer:
    tensors = _Tensors(directory)
    packed = Int8Linear if weights == "int8" else Fp32Linear
    check_processor(packed)
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

    embedding = tensors.get("model.embed_tokens.weight", config.vocab_size, hidden)
    matrix = embedding if config.tied_head else tensors.get("lm_head.weight", config.vocab_size, hidden)

    @torch.inference_mode()
    def head() -> Linear:
        # rows that pad the vocabulary stand for no token: they could only win by accident
        return packed(matrix[: tokenizer.vocab_size], None)

    layers = []
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # packing a matrix keeps only one core busy
        packing_head = pool.submit(head)  # the largest first
        for built in pool.map(layer, range(config.layers)):
            layers.append(built)
            if on_progress:
                on_progress(len(layers) / (config.layers + 1))
    if on_progress:
        on_progress(1.0)
    return Transformer(config, embedding, layers, norm("model.norm"), packing_head.result())


def _eos_ids(directory: Path, description: dict[str, Any], tokenizer: Tokenizer) -> tuple[int, ...]:
    """What generation_config.json or config.json name as the end of a text; one id or several."""
    generation = directory / "generation_config.json"
    source, named = directory / "config.json", description.get("eos_token_id")
    if generation.exists():
        source, named = generation, _read_json(generation).get("eos_token_id", named)
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


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DraftlineError(
            f"{path.parent} is not a model directory: {path.name} is missing; fetch a model with "
            "`model-setup fetch`."
        ) from error
    except (OSError, ValueError) as error:
        raise DraftlineError(f"{path} cannot be read ({error}); fetch the model again.") from error
    if not isinstance(content, dict):
        raise DraftlineError(f"{path} does not hold a JSON object; fetch the model again.")
    return content
