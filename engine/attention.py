"""Attention over the cache and a tree, exact in any order of summation.

Floating-point sums depend on their order, and the order depends on how many rows and slots there are.
Queries, keys, values and weights are therefore rounded to fixed-point grids and held in float64, whose 53
bits take their products and sums without rounding: a node's result is bit for bit that of linear decoding,
however the batch around it looks. The grids are finer than float32 would be for values over 32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.config import Config
from engine.kv_cache import KVCache
from engine.rotary import turn_

# q·k is a multiple of 2**-38, exact while the sum of |q_i k_i| stays below 2**15.
# p·v is a multiple of 2**-41, exact while the sum of p|v| stays below 2**12 (each p is at most 1).
GRID = 2.0**-19  # of queries, keys and values
WEIGHT_GRID = 2.0**-22  # of softmax weights before they are divided by their sum

_HALF = 1.5 * 2.0**52  # adding it to a float64 leaves no room for bits below 1: the sum is rounded there


class ExactAttention:
    """The attention of one forward pass: called layer by layer, it writes to the cache and reads from it."""

    def __init__(self, config: Config, cache: KVCache, rows: int, visible: Tensor | None) -> None:
        """rows, visible: as in `Transformer.forward`."""
        self._config = config
        end = cache.length + (rows if visible is None else visible.shape[1])
        # taken apart here once, as every view takes a microsecond or two in each layer
        self._keys, self._values = (slots.unbind() for slots in cache.slots(0, end))
        self._own = cache.slots(end - rows, end).unbind(1)
        group = config.heads // config.kv_heads
        self._hidden = None if visible is None else (~visible).repeat(group, 1)

    def __call__(self, layer: int, qkv: Tensor, turns: Tensor) -> Tensor:
        """qkv: [rows, heads + 2 kv_heads, head_dim] float32, turns: [heads + kv_heads, rows, head_dim / 2]
        complex128 -> [rows, heads * head_dim] float32."""
        rows, heads, kv_heads = len(qkv), self._config.heads, self._config.kv_heads
        every = qkv.transpose(0, 1).to(torch.float64, memory_format=torch.contiguous_format)
        turn_(every[: heads + kv_heads], turns)
        round_to_grid_(every, GRID)
        own = self._own[layer]
        own.copy_(every[heads:].view(own.shape))
        queries = every[:heads].view(kv_heads, -1, own.shape[-1])
        attended = exact_attention(queries, self._keys[layer], self._values[layer], self._hidden)
        attended = attended.view(heads, rows, -1).transpose(0, 1)
        return attended.to(torch.float32, memory_format=torch.contiguous_format).view(rows, -1)


def round_to_grid_(x: Tensor, grid: float) -> Tensor:
    """Round x, float64, to multiples of ``grid`` (a power of two) in place; for |x| < 2**51 * grid."""
    return x.add_(_HALF * grid).sub_(_HALF * grid)


def exact_attention(queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Softmax attention in fixed point.

    queries: [kv_heads, group * rows, head_dim], scaled. keys, values: [kv_heads, slots, head_dim]. All
    are float64 on GRID. hidden: [group * rows, behind] bool, True where a row must not see one of the last
    ``behind`` slots; None: all are seen. Returns [kv_heads, group * rows, head_dim] float64.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2))
    if hidden is not None:
        scores[:, :, -hidden.shape[1] :].masked_fill_(hidden, float("-inf"))
    scores -= scores.amax(dim=2, keepdim=True)
    # exp differs in its last bit between vector lanes and remainders; the rounding that follows hides it
    weights = round_to_grid_(scores.exp_(), WEIGHT_GRID)
    total = weights.sum(dim=2, keepdim=True)
    return torch.bmm(weights, values).div_(total)
