"""Rounding to int8 by row, the same whatever then multiplies the integers.

A weight row is scaled by its largest weight, an activation row by its largest activation: no row's result
depends on another's. The sum of integer products is exact in any order, so products of two processors differ
in nothing if they round the weights to the same levels.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LEVELS = 127  # the largest integer that an activation is rounded to
_SMALLEST = 1e-12  # stands in for the largest of a row of zeros


def round_weight(weight: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """weight [out, in], any floating dtype -> integers [out, in] int8, factors [out] float32.

    levels: the largest integer. A row's sum of products with activation integers, times its factor and the
    largest of the activations, is the product.
    """
    dense = weight.float()
    scale = dense.abs().amax(dim=1).clamp_min(_SMALLEST) / levels
    return (dense / scale[:, None]).round_().to(torch.int8), scale / LEVELS


def multiply_rounded(x: Tensor, product: Callable[[Tensor], Tensor], bias: Tensor | None) -> Tensor:
    """x [rows, in] float32 -> [rows, out] float32.

    product: takes x rounded to integers from -LEVELS to LEVELS, [rows, in] float32, gives their sums of
    products times the weight rows' factors.
    """
    largest = x.abs().amax(dim=1, keepdim=True).clamp_min_(_SMALLEST)
    out = product((x * (LEVELS / largest)).round_())
    out *= largest
    if bias is not None:
        out += bias
    return out
