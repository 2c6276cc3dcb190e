"""Attention for a GPU: PyTorch's fused kernels over the whole cache, in shapes that never change.

A kernel picks its order of summation by the shapes it is given, so every pass has the same number of rows
and slots, whatever is asked and however long the text is; what a row must not see is masked. One difference
remains: a guess is written where its tree has room, not where plain decoding would have it, and so stands
elsewhere in the sum. Last bits may differ, and where the two best tokens are as close as that, texts.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.config import Config
from engine.kv_cache import KVCache


class FusedAttention:
    """The attention of one forward pass: called layer by layer, it writes to the cache and reads from it."""

    def __init__(self, config: Config, cache: KVCache, slots: Tensor, visible: Tensor) -> None:
        """slots: [rows] int64, where each row's keys and values go. visible: [rows, capacity] bool, the slots
        each row sees; at least one."""
        self._config = config
        self._cache = cache
        self._slots = slots
        # queries that share keys are rows of one product, so that the cache is not expanded
        self._mask = visible.repeat(config.heads // config.kv_heads, 1)

    def __call__(self, layer: int, qkv: Tensor, turns: Tensor) -> Tensor:
        """qkv: [rows, heads + 2 kv_heads, head_dim] float32, turns: [heads + kv_heads, rows, head_dim / 2]
        complex128 -> [rows, heads * head_dim] float32."""
        config = self._config
        rows, turning = len(qkv), config.heads + config.kv_heads
        keys, values = self._cache.keys[layer], self._cache.values[layer]
        pairs = torch.view_as_complex(qkv[:, :turning].reshape(rows, turning, -1, 2)).transpose(0, 1)
        turned = torch.view_as_real(pairs * turns.to(pairs.dtype)).flatten(2).to(keys.dtype)
        keys.index_copy_(1, self._slots, turned[config.heads :])
        values.index_copy_(1, self._slots, qkv[:, turning:].transpose(0, 1).to(values.dtype))
        queries = turned[: config.heads].reshape(config.kv_heads, -1, config.head_dim)
        attended = functional.scaled_dot_product_attention(
            queries[None], keys[None], values[None], self._mask, scale=1.0
        )
        return attended.view(config.heads, rows, -1).transpose(0, 1).reshape(rows, -1).float()
