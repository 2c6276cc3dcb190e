"""What a config.json says is taken as transformers takes it; what the forward does not compute is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import transformers

from engine.config import Config, read_config
from engine.errors import DraftlineError
from engine.families import FAMILIES

SOURCE = Path("model")
SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 97,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 192,
}
GPT2: dict[str, Any] = {"vocab_size": 300, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 192}


def config(family: str, **values: Any) -> Config:
    sizes = GPT2 if family.startswith("gpt") else SIZES
    return read_config({"model_type": family, **sizes, FAMILIES[family].eps: 1e-5, **values}, SOURCE)


def refusal(family: str, **values: Any) -> str:
    with pytest.raises(DraftlineError) as raised:
        config(family, **values)
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("family", FAMILIES)
def test_what_a_file_leaves_out_is_what_transformers_takes_it_for(family):
    """Older files hold little more than the sizes."""
    ours, theirs = config(family), transformers.AutoConfig.for_model(family)
    assert ours.tied_head == bool(theirs.tie_word_embeddings)
    assert ours.activation == (theirs.activation_function if family.startswith("gpt") else theirs.hidden_act)
    for flag, setting in (
        (ours.qkv_bias, FAMILIES[family].qkv_bias),
        (ours.output_bias, FAMILIES[family].output_bias),
        (ours.mlp_bias, FAMILIES[family].mlp_bias),
    ):
        assert flag == (getattr(theirs, setting) if isinstance(setting, str) else setting)
    assert ours.kv_heads == (1 if family == "gpt_bigcode" else 4)
    assert ours.head_dim == (theirs.head_dim if family == "qwen3" else 16)
    assert ours.embedding_multiplier == ours.residual_multiplier == ours.logits_divisor == 1
    if not family.startswith("gpt"):
        turning = theirs.rope_parameters.get("partial_rotary_factor", 1.0) * ours.head_dim
        assert 2 * len(ours.frequencies) == turning
        assert ours.frequencies[1] == pytest.approx(1e4 ** (-2 / turning))


@pytest.mark.parametrize(
    ("values", "longest"),
    [
        ({"sliding_window": 4096}, 192),
        ({"sliding_window": 192}, 192),
        ({"sliding_window": 64}, 64),
        ({"sliding_window": None}, 192),
    ],
)
def test_a_text_is_kept_within_a_sliding_window(values, longest):
    """Where it hides nothing; a window beyond the longest text changes nothing."""
    assert config("starcoder2", **values).max_positions == longest
    assert config("qwen2", **values, use_sliding_window=True).max_positions == longest
    assert config("qwen2", **values, use_sliding_window=False).max_positions == 192


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ({"rope_theta": 5e5}, {"rope_type": "default", "rope_theta": 5e5}),
        (
            {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 1e5},  # DeepSeek-Coder
            {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
        ),
        (
            {
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 48},
                "rope_theta": 1e6,  # Qwen2.5
            },
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 48, "rope_theta": 1e6},
        ),
        ({"rope_scaling": None, "rope_theta": 1e4}, {}),
    ],
)
def test_the_older_spelling_of_rotary_positions_means_the_same(older, today):
    assert config("llama", **older) == config("llama", rope_parameters=today)


def test_the_context_that_yarn_was_trained_in_may_stand_outside():
    scaling = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}
    inside = config("llama", rope_parameters={**scaling, "original_max_position_embeddings": 48})
    outside = config("llama", rope_parameters=scaling, original_max_position_embeddings=48)
    assert inside == outside != config("llama", rope_parameters=scaling)


# What is refused


@pytest.mark.parametrize("name", ["mamba", "mistral", None, ["llama"]])
def test_an_unknown_architecture_is_told_the_known_ones(name):
    message = refusal("llama", model_type=name)
    assert repr(name) in message
    assert all(family in message for family in FAMILIES)


@pytest.mark.parametrize(
    ("family", "values", "named"),
    [
        (
            "llama",
            {"rope_parameters": {"rope_type": "longrope", "factor": 4.0}},
            "rope scaling of type longrope",
        ),
        ("qwen2", {"rope_scaling": {"type": "mrope"}}, "rope scaling of type mrope"),
        ("qwen2", {"hidden_act": "relu2"}, "the activation relu2"),
        ("qwen2", {"quantization_config": {"quant_method": "fp8"}}, "quantized weights"),
        ("stablelm", {"use_parallel_residual": True}, "a parallel residual"),
        ("stablelm", {"qk_layernorm": True}, "normalised queries and keys"),
        ("gpt2", {"add_cross_attention": True}, "cross-attention"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "attention scaled by layer"),
        ("gpt_bigcode", {"multi_query": False}, "fused attention by head"),
    ],
)
def test_a_variant_that_we_do_not_compute_is_named(family, values, named):
    assert named in refusal(family, **values)


@pytest.mark.parametrize(
    "values",
    [
        {"num_attention_heads": 0},
        {"num_attention_heads": "many"},
        {"num_attention_heads": None},
        {"num_key_value_heads": 3},
        {"num_key_value_heads": -2},
        {"hidden_size": None},
        {"hidden_size": -64},
        {"head_dim": 15},
        {"rms_norm_eps": "small"},
        {"rope_parameters": "default"},
        {"rope_parameters": {"rope_theta": "large"}},
        {"rope_parameters": {"rope_type": "linear"}},
        {"rope_parameters": {"rope_type": "linear", "factor": 0}},
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
        {"rope_parameters": {"rope_type": "yarn", "factor": "four"}},
        {"rope_parameters": {"rope_type": ["yarn"]}},
        {"partial_rotary_factor": 1.5},
        {"partial_rotary_factor": 0.2},
        {"hidden_act": ["silu"]},
        {"max_position_embeddings": 0},
        {"num_hidden_layers": [2]},
        {"use_sliding_window": True, "sliding_window": -1},
    ],
)
def test_an_impossible_value_is_refused(values):
    refusal("llama", **values)


def test_logits_divided_by_nothing_are_refused():
    refusal("granite", logits_scaling=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_size_is_named(family):
    sizes = GPT2 if family.startswith("gpt") else SIZES
    for key in sizes:
        left = {name: value for name, value in sizes.items() if name != key}
        with pytest.raises(DraftlineError, match=r"config\.json lacks"):
            read_config({"model_type": family, FAMILIES[family].eps: 1e-5, **left}, SOURCE)
