"""Normalising a row (or a head of it) by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

Norm = Callable[[Tensor], Tensor]


def rms_norm(weight: Tensor, eps: float) -> Norm:
    """Of each x[..., :]: divide by the root of the mean square (Zhang & Sennrich 2019).

    weight: [n] for rows [rows, n]; [heads, n] for the heads of rows, [rows, heads, n].

    It is x / root(|x|² + n eps) * root(n) weight. The sum goes along one row, and all else rounds correctly,
    which hypot does not promise: a row's bits do not depend on its place among others. On a CPU, where for a
    few rows an operation costs what its call does, 896 elements take 8 µs, torch's own 14.
    """
    n = weight.shape[-1]
    weight, least = weight * math.sqrt(n), torch.tensor(n * eps, device=weight.device)

    def norm(x: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return (x / size.mul_(size).add_(least).sqrt_()).mul_(weight)

    return norm


def layer_norm(weight: Tensor, bias: Tensor, eps: float) -> Norm:
    """Of rows [rows, n]: to mean 0 and variance 1 (Ba et al. 2016). weight, bias: [n]."""
    return lambda x: functional.layer_norm(x, weight.shape, weight, bias, eps)
