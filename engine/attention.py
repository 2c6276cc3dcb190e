"""Attention over the cache and a tree, exact in any order of summation.

Floating-point sums depend on their order, and the order depends on how many rows and slots there are.
Queries, keys, values and weights are therefore rounded to fixed-point grids and held in float64, whose 53
bits take their products and sums without rounding: a node's result is bit for bit that of linear decoding,
however the batch around it looks. The grids are finer than float32 would be for values over 32.
"""

from __future__ import annotations

import torch
from torch import Tensor

# q·k is a multiple of 2**-38, exact while the sum of |q_i k_i| stays below 2**15.
# p·v is a multiple of 2**-41, exact while the sum of p|v| stays below 2**12 (each p is at most 1).
GRID = 2.0**-19  # of queries, keys and values
WEIGHT_GRID = 2.0**-22  # of softmax weights before they are divided by their sum

_HALF = 1.5 * 2.0**52  # adding it to a float64 leaves no room for bits below 1: the sum is rounded there


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
