"""The cache holds the committed text in order, one slot a token, and never grows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.kv_cache import KVCache
from tests.engine.tiny_models import committed

CAPACITY = 12


def filled() -> KVCache:
    """Two layers; slot s of layer l holds the key 100 l + s and the value 1000 + 100 l + s."""
    cache = KVCache(2, 1, 1, CAPACITY)
    for layer in range(2):
        slots = 100.0 * layer + torch.arange(CAPACITY)[None, :, None]
        cache.keys[layer].copy_(slots)
        cache.values[layer].copy_(slots + 1000)
    return cache


@given(st.integers(0, CAPACITY), st.data())
def test_accepted_slots_move_to_the_end_of_the_text(start, data):
    slots = data.draw(st.lists(st.integers(start, CAPACITY - 1), unique=True)) if start < CAPACITY else []
    slots.sort()
    cache = filled()
    cache.commit(range(start))
    cache.commit(slots)
    text = [*range(start), *slots]
    assert cache.length == len(text)
    for index, tensor in enumerate(committed(cache)):
        layer, offset = index % 2, 1000 * (index // 2)
        assert tensor.flatten().tolist() == [offset + 100 * layer + slot for slot in text]


def test_nothing_accepted_changes_nothing():
    cache = filled()
    cache.commit([])
    assert cache.length == 0


def test_what_is_truncated_is_written_again():
    cache = filled()
    cache.commit(range(8))
    cache.truncate(3)
    cache.commit([5, 7])
    assert cache.keys[0][0, :5, 0].tolist() == [0, 1, 2, 5, 7]
    assert cache.length == 5


@pytest.mark.parametrize("length", [-1, 5])
def test_a_text_is_not_truncated_to_what_it_never_was(length):
    cache = filled()
    cache.commit(range(4))
    with pytest.raises(ValueError, match="4 tokens"):
        cache.truncate(length)
    assert cache.length == 4


def test_no_memory_is_allocated_after_the_start():
    cache = filled()
    places = [tensor.data_ptr() for tensor in (*cache.keys, *cache.values)]
    cache.commit([0, 3, 5])
    cache.truncate(1)
    cache.commit([4, 6])
    assert [tensor.data_ptr() for tensor in (*cache.keys, *cache.values)] == places
