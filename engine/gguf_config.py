"""What a GGUF file says of its model, in Hugging Face's words: config.json, and the names of its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.errors import DraftlineError
from engine.families import FAMILIES, HEAD, Family
from engine.gguf_header import GgufFile, GgufTensor


@dataclass(frozen=True)
class Architecture:
    """model_type, class_name: as in config.json. paired: llama.cpp reorders its queries and keys."""

    model_type: str
    class_name: str
    paired: bool = False

    @property
    def family(self) -> Family:
        return FAMILIES[self.model_type]


ARCHITECTURES = {
    "qwen2": Architecture("qwen2", "Qwen2ForCausalLM"),
    "llama": Architecture("llama", "LlamaForCausalLM", paired=True),
    "qwen3": Architecture("qwen3", "Qwen3ForCausalLM"),
    "granite": Architecture("granite", "GraniteForCausalLM", paired=True),
    "starcoder2": Architecture("starcoder2", "Starcoder2ForCausalLM"),
    "gpt2": Architecture("gpt2", "GPT2LMHeadModel"),
    "starcoder": Architecture("gpt_bigcode", "GPTBigCodeForCausalLM"),
}
_MULTIPLIERS = {
    "embedding_scale": "embedding_multiplier",
    "attention.scale": "attention_multiplier",
    "residual_scale": "residual_multiplier",
    "logit_scale": "logits_scaling",
}


def architecture_of(source: GgufFile) -> Architecture:
    """The row of ARCHITECTURES that ``source`` belongs to.

    Raises:
        DraftlineError: none.
    """
    name = source.metadata.get("general.architecture")
    if name not in ARCHITECTURES:
        raise DraftlineError(
            f"{source.path} holds a model of the architecture {name}, which is not supported; take one of "
            f"{', '.join(ARCHITECTURES)}."
        )
    return ARCHITECTURES[name]


def read_config_of(source: GgufFile) -> dict[str, Any]:
    """The sizes in the metadata as config.json has them; all but whether the head is tied.

    Raises:
        DraftlineError: one is missing, or positions are scaled in a way that we do not compute.
    """
    architecture = architecture_of(source)
    family = architecture.family
    heads = _value(source, "attention.head_count")
    epsilon = "layer_norm_rms_epsilon" if family.norm == "rms" else "layer_norm_epsilon"
    config: dict[str, Any] = {
        "architectures": [architecture.class_name],
        "model_type": architecture.model_type,
        "hidden_act": family.defaults.get("hidden_act", "silu"),
        "hidden_size": _value(source, "embedding_length"),
        "num_hidden_layers": _value(source, "block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": _value(source, "attention.head_count_kv", heads),
        "n_inner" if family.positions else "intermediate_size": _value(source, "feed_forward_length"),
        "max_position_embeddings": _value(source, "context_length"),
        family.eps: _shortest(_value(source, f"attention.{epsilon}")),
        "vocab_size": tensor_of(source, "token_embd.weight").shape[0],
        "bos_token_id": source.metadata.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": source.metadata.get("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float16",
    }
    if head_dim := _value(source, "attention.key_length", 0):
        config["head_dim"] = head_dim
    if family.positions is None:
        config["rope_theta"] = _shortest(_value(source, "rope.freq_base", 10000.0))
        if scaling := _rope_scaling(source):
            config["rope_scaling"] = scaling
    for setting, place in ((family.qkv_bias, "attn_q"), (family.mlp_bias, "ffn_up")):
        if isinstance(setting, str):
            config[setting] = f"blk.0.{place}.bias" in source.tensors
    if family.multipliers:
        for ours, theirs in _MULTIPLIERS.items():
            config[theirs] = _shortest(_value(source, ours))
    return config


def names_of(source: GgufFile, layers: int) -> dict[str, str]:
    """GGUF tensor names -> Hugging Face's, for every tensor of ``source``.

    Raises:
        DraftlineError: one has no place in its family, or one is missing.
    """
    family = architecture_of(source).family
    stems = {"token_embd": family.embedding, "output_norm": family.final_norm, "output": HEAD}
    if family.positions:
        stems["position_embd"] = family.positions
    qkv = ("attn_q", "attn_k", "attn_v") if len(family.qkv) == 3 else ("attn_qkv",)
    up = ("ffn_gate", "ffn_up") if family.gated else ("ffn_up",)
    head_norms = ("attn_q_norm", "attn_k_norm") if family.head_norms else ()
    block = dict(
        zip(
            ("attn_norm", *qkv, *head_norms, "attn_output", "ffn_norm", *up, "ffn_down"),
            (
                family.input_norm,
                *family.qkv,
                *family.head_norms,
                family.output,
                family.post_norm,
                *family.up,
                family.down,
            ),
            strict=True,
        )
    )
    for layer in range(layers):
        prefix = family.layer.format(layer)
        stems |= {f"blk.{layer}.{ours}": prefix + theirs for ours, theirs in block.items()}
    for stem in sorted(stems.keys() - {"output"}):
        tensor_of(source, f"{stem}.weight")
    names = {f"{ours}.{kind}": f"{stems[ours]}.{kind}" for ours in stems for kind in ("weight", "bias")}
    if unknown := sorted(source.tensors.keys() - names.keys()):
        raise DraftlineError(
            f"{source.path} has tensors of an unsupported kind ({unknown[0]}); take a plain model of one of "
            f"the architectures {', '.join(ARCHITECTURES)}."
        )
    return {name: names[name] for name in source.tensors}


def tensor_of(source: GgufFile, name: str) -> GgufTensor:
    """The tensor ``name`` of ``source``.

    Raises:
        DraftlineError: there is none.
    """
    if name not in source.tensors:
        raise DraftlineError(f"{source.path} lacks the tensor {name}; download it again.")
    return source.tensors[name]


def _value(source: GgufFile, key: str, default: Any = None) -> Any:
    architecture = source.metadata["general.architecture"]
    found = source.metadata.get(f"{architecture}.{key}", default)
    if found is None:
        raise DraftlineError(f"{source.path} does not say its {architecture}.{key}; download it again.")
    return found


def _rope_scaling(source: GgufFile) -> dict[str, Any] | None:
    older = _value(source, "rope.scale_linear", 1.0)  # how files of 2023 say it
    kind = _value(source, "rope.scaling.type", "none" if older == 1 else "linear")
    if kind == "none":
        return None
    factor = _shortest(_value(source, "rope.scaling.factor", None if older == 1 else older))
    if kind == "linear":
        return {"rope_type": "linear", "factor": factor}
    if kind == "yarn":
        context = _value(source, "rope.scaling.original_context_length")
        return {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": context}
    raise DraftlineError(
        f"{source.path} scales its rotary positions as {kind}, which is not supported; take another."
    )


def _shortest(single: float) -> float:
    """What the vendor wrote (1e-06) before it went through float32 (9.999999974752427e-07)."""
    return float(str(np.float32(single)))
