"""The forward pass computes what transformers computes, and each row as if it were alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.families import FAMILIES
from engine.tokenizer import Tokenizer
from engine.transformer import Transformer
from tests.engine.tiny_models import (
    TOKENS,
    change_config,
    committed,
    linear_logits,
    load_reference,
    load_tiny,
    path_of,
    reference_logits,
    same,
    tree_logits,
    write_model,
)

CAPACITY = 192
VARIANTS: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen2 with a tied head": {"tie_word_embeddings": True},
    "qwen2 with heads wider than hidden / heads": {"head_dim": 24},
    "llama": {"family": "llama"},
    "llama with a tied head": {"family": "llama", "tie_word_embeddings": True},
    "llama without groups": {"family": "llama", "num_key_value_heads": 4},
    "llama with one key head": {"family": "llama", "num_key_value_heads": 1},
    "llama with heads narrower than hidden / heads": {"family": "llama", "head_dim": 8},
    "llama with all biases": {"family": "llama", "attention_bias": True, "mlp_bias": True},
    "llama with another activation": {"family": "llama", "hidden_act": "gelu"},
    "qwen3": {"family": "qwen3", "head_dim": 24},
    "qwen3 with a tied head and biases": {
        "family": "qwen3",
        "head_dim": 16,
        "tie_word_embeddings": True,
        "attention_bias": True,
    },
    "granite": {
        "family": "granite",
        "embedding_multiplier": 12.0,
        "attention_multiplier": 0.1,
        "residual_multiplier": 0.22,
        "logits_scaling": 8.0,
    },
    "granite with a tied head and all biases": {
        "family": "granite",
        "embedding_multiplier": 3.0,
        "attention_multiplier": 0.3,
        "residual_multiplier": 0.5,
        "logits_scaling": 2.0,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "mlp_bias": True,
    },
    "starcoder2": {"family": "starcoder2"},
    "starcoder2 with a tied head and a long window": {
        "family": "starcoder2",
        "tie_word_embeddings": True,
        "sliding_window": 4096,
    },
    "starcoder2 without biases": {"family": "starcoder2", "use_bias": False},
    "stablelm": {"family": "stablelm"},
    "stablelm with biases and half a head that turns": {
        "family": "stablelm",
        "use_qkv_bias": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
    "gpt2": {"family": "gpt2", "tie_word_embeddings": True},
    "gpt2 with a head of its own": {"family": "gpt2"},
    "gpt2 four times as wide inside, with unscaled attention": {
        "family": "gpt2",
        "intermediate_size": None,
        "scale_attn_weights": False,
    },
    "gpt_bigcode": {"family": "gpt_bigcode", "tie_word_embeddings": True},
    "gpt_bigcode with a head of its own and exact gelu": {
        "family": "gpt_bigcode",
        "activation_function": "gelu",
    },
    "another rope base": {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}},
    "the older spelling of the rope base": {"rope_theta": 5e5},
    "rope scaled evenly": {
        "family": "llama",
        "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
    },
    "rope that scales beyond the context": {
        "rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4},
    },
    "rope scaled as in llama 3": {
        "family": "llama",
        "rope_parameters": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 1e3,
        },
    },
    "rope scaled by yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 48,
            "rope_theta": 1e3,
        },
    },
    "rope scaled by yarn with all its settings": {
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 3.0,
            "original_max_position_embeddings": 64,
            "rope_theta": 1e4,
            "beta_fast": 8.0,
            "beta_slow": 0.5,
            "truncate": False,
            "attention_factor": 1.3,
        },
    },
    "rope scaled by yarn as DeepSeek does": {
        "family": "llama",
        "rope_parameters": {
            "rope_type": "yarn",
            "factor": 6.0,
            "mscale": 0.9,
            "mscale_all_dim": 0.4,
            "rope_theta": 1e4,
        },
    },
}
FAMILY_VARIANTS = {
    name: VARIANTS[name] for name in (*FAMILIES, "gpt_bigcode with a head of its own and exact gelu")
}


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """The largest error of a row's logits, in units of the row's largest logit."""
    theirs = theirs[:, : ours.shape[1]]
    return float(((ours - theirs).abs().amax(dim=1) / theirs.abs().amax(dim=1)).max())


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Transformer, Any]:
    """A model of ours and the same in transformers."""
    directory = tmp_path_factory.mktemp("model")
    variant = dict(VARIANTS[request.param])
    older = variant.pop("rope_theta", None)
    write_model(directory, **variant)
    if older is not None:
        change_config(directory, remove=["rope_parameters"], rope_theta=older)
    return load_tiny(directory), load_reference(directory)


TEXT = [random.Random(0).randrange(TOKENS) for _ in range(90)]


@pytest.mark.parametrize("chunk", [1, 7, 40, 90])
def test_logits_are_those_of_transformers_however_the_text_is_cut(pair, chunk):
    model, reference = pair
    ours = linear_logits(model, TEXT, model.new_cache(CAPACITY), chunk)
    assert relative_error(ours, reference_logits(reference, TEXT)) < 1e-5


def test_logits_of_a_tree_are_those_of_transformers_along_each_path(pair):
    model, reference = pair
    cache = model.new_cache(CAPACITY)
    linear_logits(model, TEXT, cache, 32)
    rng = random.Random(str(model.config))
    tokens = [rng.randrange(TOKENS) for _ in range(10)]
    parents = [-1, *(rng.randrange(max(0, node - 4), node) for node in range(1, 10))]
    ours = tree_logits(model, cache, tokens, parents)
    for node in range(len(tokens)):
        path = [tokens[step] for step in path_of(parents, node)]
        theirs = reference_logits(reference, TEXT + path)[-1:]
        assert relative_error(ours[node : node + 1], theirs) < 1e-5


def test_the_vocabularys_padding_has_no_logits(pair):
    model, _ = pair
    assert linear_logits(model, [0], model.new_cache(CAPACITY)).shape == (1, TOKENS)


# Exactness, bit for bit


@pytest.fixture(scope="module", params=["fp32", "int8"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    return load_tiny(write_model(tmp_path_factory.mktemp("model")), request.param)


tokens = st.integers(0, TOKENS - 1)
texts = st.lists(tokens, max_size=70)
trees = st.integers(1, 40).flatmap(
    lambda nodes: st.tuples(
        st.lists(tokens, min_size=nodes, max_size=nodes),
        st.tuples(*(st.integers(-1 if node == 0 else 0, max(node - 1, 0)) for node in range(nodes))),
    )
)
exact = settings(max_examples=25)


@exact
@given(texts, trees, st.integers(1, 40))
def test_a_nodes_logits_are_those_of_linear_decoding_along_its_path(model, text, tree, chunk):
    tokens, parents = tree
    parents = (-1, *parents[1:])
    cache = model.new_cache(CAPACITY)
    linear_logits(model, text or [0], cache, chunk)
    ours = tree_logits(model, cache, tokens, parents)
    for node in {0, len(tokens) // 2, len(tokens) - 1}:
        alone = model.new_cache(CAPACITY)
        linear_logits(model, text or [0], alone)
        path = [tokens[step] for step in path_of(parents, node)]
        assert torch.equal(ours[node], linear_logits(model, path, alone)[-1])


@exact
@given(texts, trees, st.randoms(use_true_random=False))
def test_siblings_their_order_and_their_number_change_nothing(model, text, tree, rng):
    tokens, parents = tree
    parents = (-1, *parents[1:])
    cache = model.new_cache(CAPACITY)
    linear_logits(model, text or [0], cache)
    ours = tree_logits(model, cache, tokens, parents)

    kept = path_of(parents, rng.randrange(len(tokens)))  # one path of the tree, alone
    path_parents = [kept.index(parents[node]) if parents[node] >= 0 else -1 for node in kept]
    assert torch.equal(tree_logits(model, cache, [tokens[node] for node in kept], path_parents), ours[kept])

    order = _shuffled_parents_first(parents, rng)
    place = {node: index for index, node in enumerate(order)} | {-1: -1}
    moved = [place[parents[node]] for node in order]
    assert torch.equal(tree_logits(model, cache, [tokens[node] for node in order], moved), ours[order])


def _shuffled_parents_first(parents: tuple[int, ...], rng: random.Random) -> list[int]:
    order: list[int] = []
    while len(order) < len(parents):
        ready = [n for n in range(len(parents)) if n not in order and parents[n] in (-1, *order)]
        order.append(rng.choice(ready))
    return order


@exact
@given(texts.filter(len), st.integers(1, 70))
def test_a_text_read_in_chunks_leaves_the_cache_of_one_read_token_by_token(model, text, chunk):
    at_once, one_by_one = model.new_cache(CAPACITY), model.new_cache(CAPACITY)
    chunked = linear_logits(model, text, at_once, chunk)
    assert torch.equal(chunked, linear_logits(model, text, one_by_one))
    assert same(committed(at_once), committed(one_by_one))


@exact
@given(texts, trees, st.integers(1, 39))
def test_a_tree_read_in_two_passes_is_the_tree_read_in_one(model, text, tree, first):
    """As a draft reads it: the second pass sees what the first wrote behind the text."""
    tokens, parents = tree
    parents = (-1, *parents[1:])
    first = min(first, len(tokens))
    cache = model.new_cache(CAPACITY)
    linear_logits(model, text or [0], cache)
    at_once = tree_logits(model, cache, tokens, parents)
    logits = [tree_logits(model, cache, tokens[:first], parents[:first])]
    if first < len(tokens):
        logits.append(tree_logits(model, cache, tokens, parents, read=first))
    assert torch.equal(torch.cat(logits), at_once)


@exact
@given(texts, trees, st.data())
def test_after_a_path_is_accepted_the_cache_is_that_of_linear_decoding(model, text, tree, data):
    tokens, parents = tree
    parents = (-1, *parents[1:])
    cache, alone = model.new_cache(CAPACITY), model.new_cache(CAPACITY)
    linear_logits(model, text, cache, 16) if text else None
    tree_logits(model, cache, tokens, parents)
    path = path_of(parents, data.draw(st.integers(0, len(tokens) - 1)))
    cache.commit([len(text) + node for node in path])
    linear_logits(model, [*text, *(tokens[node] for node in path)], alone)
    assert same(committed(cache), committed(alone))
    assert torch.equal(linear_logits(model, [1], cache), linear_logits(model, [1], alone))


@pytest.mark.parametrize("weights", ["fp32", "int8"])
@pytest.mark.parametrize("variant", FAMILY_VARIANTS)
def test_in_every_family_a_row_is_the_same_among_any_number_of_others(tmp_path: Path, variant, weights):
    model = load_tiny(write_model(tmp_path, **VARIANTS[variant]), weights)
    alone = linear_logits(model, TEXT[:33], model.new_cache(CAPACITY))
    for rows in range(2, 34):
        assert torch.equal(linear_logits(model, TEXT[:rows], model.new_cache(CAPACITY), rows), alone[:rows])


def test_guesses_beyond_the_last_learned_position_do_no_harm(tmp_path: Path):
    model = load_tiny(write_model(tmp_path, "gpt2", max_position_embeddings=16))
    cache = model.new_cache(CAPACITY)
    linear_logits(model, TEXT[:15], cache, 15)
    ours = tree_logits(model, cache, TEXT[:4], [-1, 0, 1, 2])
    assert torch.equal(ours[0], linear_logits(model, TEXT[:1], cache)[0])


@pytest.mark.parametrize("weights", ["fp32", "int8"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_rows_are_independent_in_layers_as_wide_as_real_ones(tmp_path: Path, weights, threads, set_threads):
    """Wide rows are shared out among threads, which must not show either."""
    sizes = {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14, "num_hidden_layers": 1}
    model = load_tiny(write_model(tmp_path, **sizes), weights)
    set_threads(threads)
    text = [random.Random(1).randrange(TOKENS) for _ in range(64)]
    alone = linear_logits(model, text, model.new_cache(CAPACITY))
    for rows in (2, 5, 7, 8, 9, 14, 17, 31, 32, 64):
        ours = linear_logits(model, text[: 2 * rows], model.new_cache(CAPACITY), rows)
        assert torch.equal(ours, alone[: len(ours)]), f"{rows} rows"


@torch.inference_mode()
@pytest.mark.parametrize("threads", [1, 2, 3, 5, 6])
def test_each_gated_element_is_the_same_to_the_last_bit(tmp_path: Path, threads, set_threads):
    """A sum hides the last bits of what it adds up, so here each gated element is an output by itself."""
    width = 1216
    write_model(tmp_path, hidden_size=width, intermediate_size=width, head_dim=16, num_hidden_layers=1)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.layers.0.mlp.down_proj.weight"] = torch.eye(width)
    save_file(tensors, tmp_path / "model.safetensors")
    model = load_tiny(tmp_path)
    set_threads(threads)
    cache, rows = model.new_cache(64), torch.arange(64)
    alone = torch.cat([model.forward(row[None], torch.tensor([0]), cache, None) for row in rows])
    for count in (2, 7, 27, 28, 31, 33, 40, 55, 61, 64):
        each_by_itself = torch.eye(count, dtype=torch.bool)
        positions = torch.zeros(count, dtype=torch.int64)
        together = model.forward(rows[:count], positions, cache, each_by_itself)
        assert torch.equal(together, alone[:count]), f"{count} rows"


@pytest.mark.slow
def test_the_default_models_logits_are_those_of_transformers(default_model: Path):
    tokenizer = Tokenizer(default_model / "tokenizer.json")
    encode, special = tokenizer.encode, tokenizer.special
    lines = Path(random.__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    prefix, suffix = encode("".join(lines[200:214])), encode("".join(lines[216:222]))
    prompt = [special["<|fim_prefix|>"], *prefix, special["<|fim_suffix|>"], *suffix]
    prompt += [special["<|fim_middle|>"]]
    assert 150 < len(prompt) < 300
    model = load_tiny(default_model)
    ours = linear_logits(model, prompt, model.new_cache(512), 64)
    del model
    theirs = reference_logits(load_reference(default_model), prompt)
    assert relative_error(ours, theirs) < 1e-4


@pytest.mark.slow
def test_the_second_models_logits_are_those_of_transformers(second_model: Path):
    """Llama with a tied head, from a GGUF file in whose rows llama.cpp has changed the order."""
    lines = Path(random.__file__).read_text(encoding="utf-8").splitlines(keepends=True)
    text = Tokenizer(second_model / "tokenizer.json").encode("".join(lines[200:222]))
    model = load_tiny(second_model)
    ours = linear_logits(model, text, model.new_cache(512), 64)
    theirs = reference_logits(load_reference(second_model), text)
    assert relative_error(ours, theirs) < 1e-4
    assert torch.equal(ours.argmax(dim=1), theirs[:, : ours.shape[1]].argmax(dim=1))
