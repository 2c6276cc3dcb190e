"""A static cache of attention keys and values, one slot a token.

Slots [0, length) hold the committed text in order. A tree is written behind it; `commit` then moves the
slots of the accepted path to the front, and `truncate` forgets the end of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class KVCache:
    """keys, values: views of one tensor, by layer [kv_heads, capacity, head_dim]. How they are rounded is up
    to the attention that writes and reads them."""

    def __init__(
        self,
        layers: int,
        kv_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> None:
        self._both = torch.zeros((2, layers, kv_heads, capacity, head_dim), dtype=dtype, device=device)
        self.keys = list(self._both[0])
        self.values = list(self._both[1])
        self.capacity = capacity
        self.length = 0
        self.slot_bytes = self._both.nbytes // capacity

    def slots(self, start: int, end: int) -> Tensor:
        """Keys and values of slots [start, end): a view, [2, layers, kv_heads, end - start, head_dim]."""
        return self._both[:, :, :, start:end]

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
        index = torch.tensor(slots[in_place:], device=self._both.device)
        self._both[:, :, :, start + in_place : self.length] = self._both.index_select(3, index)

    def truncate(self, length: int) -> None:
        """Forget the text from ``length`` on (0 <= length <= self.length)."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate a cache of {self.length} tokens to {length}")
        self.length = length
