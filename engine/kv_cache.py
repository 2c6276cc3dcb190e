"""A static cache of attention keys and values, one slot a token.

Slots [0, length) hold the committed text in order. A tree is written behind it; `commit` then moves the
slots of the accepted path to the front, and `truncate` forgets the end of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch


class KVCache:
    """keys, values: one tensor per layer, [kv_heads, capacity, head_dim], fixed-point (see attention.py)."""

    def __init__(self, layers: int, kv_heads: int, head_dim: int, capacity: int) -> None:
        shape = (kv_heads, capacity, head_dim)
        self.keys = [torch.zeros(shape, dtype=torch.float64) for _ in range(layers)]
        self.values = [torch.zeros(shape, dtype=torch.float64) for _ in range(layers)]
        self.capacity = capacity
        self.length = 0

    def commit(self, slots: Sequence[int]) -> None:
        """Append the tokens in ``slots`` (rising, all >= length) to the committed text.

        Slots are absolute. Those already in place are not copied.
        """
        start = self.length
        self.length += len(slots)
        in_place = 0
        while in_place < len(slots) and slots[in_place] == start + in_place:
            in_place += 1
        if in_place == len(slots):
            return
        index = torch.tensor(slots[in_place:])
        first = start + in_place
        for tensor in (*self.keys, *self.values):
            tensor[:, first : self.length] = tensor.index_select(1, index)

    def truncate(self, length: int) -> None:
        """Forget the text from ``length`` on (0 <= length <= self.length)."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate a cache of {self.length} tokens to {length}")
        self.length = length
