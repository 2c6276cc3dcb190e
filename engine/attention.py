"""Attention over the cache and a tree, exact in any order of summation.

Floating-point sums depend on their order, and the order depends on how many rows and slots there are. On
the CPU, queries, keys, values and weights are therefore rounded to fixed-point grids and held as integers
in float64: their products and sums are exact below 2**53, so a node's result is bit for bit that of linear
decoding, however the batch around it looks. The grids are finer than float32 needs (KEY_UNIT is 2**-18).
"""

from __future__ import annotations

import torch
from torch import Tensor

# q·k has QUERY_UNIT * KEY_UNIT = 2**-38 as its unit: exact while the sum of |q_i k_i| stays below 2**15.
# p·v has WEIGHT_UNIT * VALUE_UNIT = 2**-40: exact while the sum of p|v| stays below 2**13 (p <= 1).
QUERY_UNIT = 2.0**-20
KEY_UNIT = 2.0**-18
WEIGHT_UNIT = 2.0**-22
VALUE_UNIT = 2.0**-18


def fixed_point(x: Tensor, unit: float) -> Tensor:
    """x, any float dtype -> float64 integers, in multiples of ``unit``."""
    return (x.double() * (1 / unit)).round_()


def exact_attention(
    queries: Tensor, keys: Tensor, values: Tensor, scale: float, hidden: Tensor | None
) -> Tensor:
    """Softmax attention in fixed point.

    queries: [kv_heads, group * rows, head_dim] float64, in multiples of QUERY_UNIT. keys, values:
    [kv_heads, slots, head_dim] float64, in multiples of KEY_UNIT and VALUE_UNIT; the last ``rows`` slots
    are the rows themselves. hidden: [group * rows, rows] bool, True where a row must not see a row; None:
    all are seen. Returns [kv_heads, group * rows, head_dim] float64.
    """
    scores = torch.bmm(queries, keys.transpose(1, 2))
    scores *= scale * QUERY_UNIT * KEY_UNIT
    if hidden is not None:
        scores[:, :, -hidden.shape[1] :].masked_fill_(hidden, float("-inf"))
    scores -= scores.amax(dim=2, keepdim=True)
    # exp differs in its last bit between vector lanes and remainders; in float64 the rounding hides it
    weights = scores.exp_().mul_(1 / WEIGHT_UNIT).round_()
    total = weights.sum(dim=2, keepdim=True)
    return torch.bmm(weights, values).mul_(VALUE_UNIT).div_(total)
