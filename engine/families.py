"""The families of models that one forward computes, as a table of their differences.

A family is told by ``model_type`` in config.json. Its row says how its tensors are called and which keys of
config.json stand for what; the defaults are transformers' own, for the keys that files leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal


@dataclass(frozen=True)
class Family:
    """One row. Tensors are named without ``.weight`` and ``.bias``; those of a layer come behind ``layer``,
    in which {} stands for its number.

    positions: learned positions; None where they are rotary. qkv: queries, keys and values, or the one that
    holds them all. head_norms: of queries and keys. up: gate and up, or up alone. transposed: matrices are
    [in, out]. norm, eps: which, and the key of its epsilon. *_bias: always, never, or the key that says so.
    multipliers: whether Granite's four are read.
    """

    embedding: str
    positions: str | None
    layer: str
    input_norm: str
    qkv: tuple[str, ...]
    output: str
    post_norm: str
    up: tuple[str, ...]
    down: str
    final_norm: str
    norm: Literal["rms", "layer"]
    eps: str
    qkv_bias: bool | str
    output_bias: bool | str
    mlp_bias: bool | str
    head_norms: tuple[str, ...] = ()
    transposed: bool = False
    multipliers: bool = False
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def gated(self) -> bool:
        return len(self.up) == 2


HEAD = "lm_head"

_LLAMA = Family(
    embedding="model.embed_tokens",
    positions=None,
    layer="model.layers.{}.",
    input_norm="input_layernorm",
    qkv=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    output="self_attn.o_proj",
    post_norm="post_attention_layernorm",
    up=("mlp.gate_proj", "mlp.up_proj"),
    down="mlp.down_proj",
    final_norm="model.norm",
    norm="rms",
    eps="rms_norm_eps",
    qkv_bias="attention_bias",
    output_bias="attention_bias",
    mlp_bias="mlp_bias",
)
_GPT2 = Family(
    embedding="transformer.wte",
    positions="transformer.wpe",
    layer="transformer.h.{}.",
    input_norm="ln_1",
    qkv=("attn.c_attn",),
    output="attn.c_proj",
    post_norm="ln_2",
    up=("mlp.c_fc",),
    down="mlp.c_proj",
    final_norm="transformer.ln_f",
    norm="layer",
    eps="layer_norm_epsilon",
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    transposed=True,
    defaults={"intermediate_size": None, "hidden_act": "gelu_new", "tie_word_embeddings": True},
)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "qwen2": replace(_LLAMA, qkv_bias=True, output_bias=False, mlp_bias=False),
    "qwen3": replace(
        _LLAMA,
        mlp_bias=False,
        head_norms=("self_attn.q_norm", "self_attn.k_norm"),
        defaults={"head_dim": 128},
    ),
    "granite": replace(_LLAMA, multipliers=True),
    "starcoder2": replace(
        _LLAMA,
        up=("mlp.c_fc",),
        down="mlp.c_proj",
        norm="layer",
        eps="norm_epsilon",
        qkv_bias="use_bias",
        output_bias="use_bias",
        mlp_bias="use_bias",
        defaults={
            "hidden_act": "gelu_pytorch_tanh",
            "use_bias": True,
            "use_sliding_window": True,
            "tie_word_embeddings": True,
        },
    ),
    "stablelm": replace(
        _LLAMA,
        norm="layer",
        eps="layer_norm_eps",
        qkv_bias="use_qkv_bias",
        output_bias=False,
        mlp_bias=False,
        defaults={"partial_rotary_factor": 0.25},
    ),
    "gpt2": _GPT2,
    "gpt_bigcode": replace(
        _GPT2,
        transposed=False,
        defaults={
            "intermediate_size": None,
            "hidden_act": "gelu_pytorch_tanh",
            "multi_query": True,
            "num_key_value_heads": 1,
            "tie_word_embeddings": True,
        },
    ),
}
