"""config.json -> Config, or a refusal that names what the forward does not compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.activations import ACTIVATIONS
from engine.errors import DraftlineError
from engine.families import FAMILIES, Family
from engine.rotary import SCALINGS, read_frequencies

_GPT2_KEYS = {
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_positions": "max_position_embeddings",
    "n_inner": "intermediate_size",
    "activation_function": "hidden_act",
}


@dataclass(frozen=True)
class Config:
    """The shape of a model.

    vocab_size: rows of the embedding. max_positions: how long a text may be. frequencies, magnitude: how the
    pairs of a head turn (see rotary.py). attention_scale: of a query's products with keys. The multipliers
    are Granite's, 1 elsewhere; logits are divided by theirs.
    """

    family: Family
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab_size: int
    max_positions: int
    norm_eps: float
    activation: str
    frequencies: tuple[float, ...]
    magnitude: float
    attention_scale: float
    embedding_multiplier: float
    residual_multiplier: float
    logits_divisor: float
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    tied_head: bool


def read_config(description: dict[str, Any], source: Path) -> Config:
    """The Config of a Hugging Face config.json; ``source`` is its directory.

    Raises:
        DraftlineError: an architecture or a variant of it that the forward does not compute.
    """
    name = description.get("model_type")
    family = FAMILIES.get(name) if isinstance(name, str) else None
    if family is None:
        raise DraftlineError(
            f"{source} holds a model of architecture {name!r}, which Draftline does not run; it runs "
            f"{', '.join(FAMILIES)}."
        )
    spelled = {_GPT2_KEYS.get(key, key): value for key, value in description.items()}
    description = {**family.defaults, **spelled}
    try:
        rope = _rope(description)
        for feature, used in _unsupported(description, rope).items():
            if used:
                raise DraftlineError(
                    f"The model in {source} uses {feature}, which Draftline does not compute; choose another "
                    "model."
                )
        config = _config(family, description, rope)
        _check(config)
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise DraftlineError(
            f"{source / 'config.json'} lacks or garbles a value ({error}); fetch the model again."
        ) from error
    return config


def _check(config: Config) -> None:
    if min(config.layers, config.heads, config.kv_heads, config.head_dim, config.max_positions) < 1:
        raise ValueError("a size below 1")
    turned = 2 * len(config.frequencies)
    if config.heads % config.kv_heads or config.head_dim % 2 or turned > config.head_dim:
        raise ValueError("heads that cannot be grouped or rotated")
    if config.logits_divisor == 0:
        raise ValueError("logits divided by 0")


def _config(family: Family, description: Mapping[str, Any], rope: Mapping[str, Any]) -> Config:
    hidden, heads = int(description["hidden_size"]), int(description["num_attention_heads"])
    head_dim = int(description.get("head_dim") or hidden // heads)
    intermediate = description["intermediate_size"]
    max_positions = int(description["max_position_embeddings"])
    # within a text no longer than the window, the window hides nothing
    window = description.get("sliding_window") if description.get("use_sliding_window") else None
    turned = 0 if family.positions else int(head_dim * float(rope["partial_rotary_factor"]))
    if turned % 2:
        raise ValueError("an odd number of elements to rotate")
    frequencies, magnitude = read_frequencies(rope, turned)
    plain_scale = head_dim**-0.5 if description.get("scale_attn_weights", True) else 1.0

    def multiplier(key: str, otherwise: float = 1.0) -> float:
        return float(description.get(key, 1.0)) if family.multipliers else otherwise

    def holds(setting: bool | str) -> bool:
        return setting if isinstance(setting, bool) else bool(description.get(setting, False))

    return Config(
        family=family,
        layers=int(description["num_hidden_layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(description.get("num_key_value_heads") or heads),
        head_dim=head_dim,
        intermediate=4 * hidden if intermediate is None else int(intermediate),
        vocab_size=int(description["vocab_size"]),
        max_positions=max_positions if window is None else min(max_positions, int(window)),
        norm_eps=float(description[family.eps]),
        activation=description.get("hidden_act", "silu"),
        frequencies=frequencies,
        magnitude=magnitude,
        attention_scale=multiplier("attention_multiplier", plain_scale),
        embedding_multiplier=multiplier("embedding_multiplier"),
        residual_multiplier=multiplier("residual_multiplier"),
        logits_divisor=multiplier("logits_scaling"),
        qkv_bias=holds(family.qkv_bias),
        output_bias=holds(family.output_bias),
        mlp_bias=holds(family.mlp_bias),
        tied_head=bool(description.get("tie_word_embeddings", False)),
    )


def _rope(description: Mapping[str, Any]) -> dict[str, Any]:
    """What is said of rotary positions, in today's spelling: older files have it at the top, in part."""
    said = description.get("rope_parameters") or description.get("rope_scaling") or {}
    rope = {
        "rope_type": said.get("type", "default"),
        "rope_theta": description.get("rope_theta") or 10000.0,
        "partial_rotary_factor": description.get("partial_rotary_factor", 1.0),
        "original_max_position_embeddings": description.get("max_position_embeddings"),
        **{key: value for key, value in said.items() if value is not None},
    }
    if "original_max_position_embeddings" in description:
        rope["original_max_position_embeddings"] = description["original_max_position_embeddings"]
    return rope


def _unsupported(description: Mapping[str, Any], rope: Mapping[str, Any]) -> dict[str, bool]:
    """What a model may use that the forward does not compute -> whether this one does."""
    activation = description.get("hidden_act", "silu")
    return {
        "quantized weights": description.get("quantization_config") is not None,
        f"rope scaling of type {rope['rope_type']}": rope["rope_type"] not in SCALINGS,
        f"the activation {activation}": activation not in ACTIVATIONS,
        "a parallel residual": bool(description.get("use_parallel_residual")),
        "normalised queries and keys": bool(description.get("qk_layernorm")),
        "cross-attention": bool(description.get("add_cross_attention")),
        "attention scaled by layer": bool(description.get("scale_attn_by_inverse_layer_idx")),
        "fused attention by head": description.get("multi_query") is False,
    }
