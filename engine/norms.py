"""Normalising a row (or a head of it) by itself."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional

Norm = Callable[[Tensor], Tensor]


def rms_norm(weight: Tensor, eps: float) -> Norm:
    """Of rows [rows, n]: divide by the root of the mean square (Zhang & Sennrich 2019). weight: [n]."""
    return lambda x: functional.rms_norm(x, weight.shape, weight, eps)


def layer_norm(weight: Tensor, bias: Tensor, eps: float) -> Norm:
    """Of rows [rows, n]: to mean 0 and variance 1 (Ba et al. 2016). weight, bias: [n]."""
    return lambda x: functional.layer_norm(x, weight.shape, weight, bias, eps)


def head_norm(weight: Tensor, eps: float) -> Norm:
    """`rms_norm` of each head by itself, [rows, heads, head_dim]. weight: [heads, head_dim]."""
    return lambda x: functional.rms_norm(x, weight.shape[1:], None, eps) * weight
