"""For random trees, all groupings of heads and both kinds of weights: a row is what it would be alone.

`test_transformer` compares with transformers and reads trees in parts; here every node of a tree is compared
with a linear forward over its path, and the batch around the tree is filled with what must not matter.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.kv_cache import KVCache
from engine.transformer import Transformer
from tests.engine.tiny_models import TOKENS, linear_logits, load_tiny, path_of, tree_logits, write_model

CAPACITY = 160
HEADS: dict[str, dict[str, Any]] = {
    "a key head each": {"num_attention_heads": 4, "num_key_value_heads": 4},
    "two share one": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "all share one": {"num_attention_heads": 6, "num_key_value_heads": 1, "head_dim": 12},
    "seven share one": {
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "hidden_size": 112,
        "family": "llama",
    },
}

tokens = st.integers(0, TOKENS - 1)
texts = st.lists(tokens, min_size=1, max_size=100)


@st.composite
def trees(draw: st.DrawFn, most: int = 32) -> tuple[list[int], list[int]]:
    """Tokens and parents; parents before children, the root's is -1. Equal siblings may occur."""
    labels = draw(st.lists(tokens, min_size=1, max_size=most))
    return labels, [-1, *(draw(st.integers(0, node - 1)) for node in range(1, len(labels)))]


@pytest.fixture(
    scope="module", params=[(heads, kind) for heads in HEADS for kind in ("fp32", "int8")], ids=str
)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    heads, kind = request.param
    return load_tiny(write_model(tmp_path_factory.mktemp("model"), **HEADS[heads]), kind)


def cache_of(model: Transformer, text: list[int]) -> KVCache:
    cache = model.new_cache(CAPACITY)
    linear_logits(model, text, cache, 32)
    return cache


def along_paths(model: Transformer, text: list[int], labels: list[int], parents: list[int]) -> Tensor:
    """[nodes, vocab]: for each node one linear forward over its path, token by token, behind the text."""
    cache = cache_of(model, text)
    rows = []
    for node in range(len(labels)):
        path = [labels[step] for step in path_of(parents, node)]
        rows.append(linear_logits(model, path, cache)[-1])
        cache.truncate(len(text))
    return torch.stack(rows)


@settings(max_examples=8)
@given(texts, trees())
def test_every_nodes_logits_are_those_of_a_linear_forward_over_its_path(model, text, tree):
    labels, parents = tree
    ours = tree_logits(model, cache_of(model, text), labels, parents)
    assert torch.equal(ours, along_paths(model, text, labels, parents))


@settings(max_examples=8)
@given(texts, trees(13), trees(19))
def test_another_tree_in_the_batch_changes_nothing(model, text, tree, padding):
    """Two trees side by side, as a batch is padded: each reads as it does without the other."""
    (labels, parents), (more, theirs) = tree, padding
    shifted = [parent + len(labels) if parent >= 0 else -1 for parent in theirs]
    together = tree_logits(model, cache_of(model, text), labels + more, parents + shifted)
    alone = [tree_logits(model, cache_of(model, text), *each) for each in (tree, padding)]
    assert torch.equal(together, torch.cat(alone))


@settings(max_examples=8)
@given(texts, trees(), st.sampled_from([float("nan"), float("inf"), 1e300, -3.0]))
def test_what_lies_behind_the_text_does_not_matter(model, text, tree, rubbish):
    """Slots of guesses that were refused, or that nothing was ever written to."""
    clean, dirty = cache_of(model, text), cache_of(model, text)
    for tensor in (*dirty.keys, *dirty.values):
        tensor[:, len(text) :] = rubbish
    assert torch.equal(tree_logits(model, dirty, *tree), tree_logits(model, clean, *tree))
    for tensor in (*dirty.keys, *dirty.values):
        tensor[:, len(text) :] = rubbish
    assert torch.equal(linear_logits(model, [7, 8], dirty), linear_logits(model, [7, 8], clean))


@settings(max_examples=8)
@given(texts, trees(), st.data())
def test_after_any_path_is_accepted_the_next_tree_reads_as_behind_the_whole_text(model, text, tree, data):
    labels, parents = tree
    cache = cache_of(model, text)
    tree_logits(model, cache, labels, parents)
    path = path_of(parents, data.draw(st.integers(0, len(labels) - 1)))
    path = path[: data.draw(st.integers(0, len(path)))]  # every accepted length, none included
    cache.commit([len(text) + node for node in path])
    whole = [*text, *(labels[node] for node in path)]
    following = data.draw(trees(8))
    assert torch.equal(tree_logits(model, cache, *following), along_paths(model, whole, *following))
