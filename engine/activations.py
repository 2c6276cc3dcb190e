"""The elementwise functions between the matrices of the MLP.

Every one must give an element the same bits however many rows there are. torch's own silu, tanh and tanh-gelu
do not: they have another last bit where a thread's share of the elements ends. Its exp, erf, products and
sums do, so all is written in these.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

Activation = Callable[[Tensor], Tensor]


def silu(x: Tensor) -> Tensor:
    """x / (1 + exp(-x))."""
    return x / x.neg().exp_().add_(1)


def gelu_tanh(x: Tensor) -> Tensor:
    """x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x³), as x / (1 + exp(-2 u))."""
    cubic = x * x * x * 0.044715 + x
    return x / cubic.mul_(-2 * math.sqrt(2 / math.pi)).exp_().add_(1)


def gelu(x: Tensor) -> Tensor:
    """x (1 + erf(x / sqrt(2))) / 2."""
    return x * (x * math.sqrt(0.5)).erf_().add_(1).mul_(0.5)


ACTIVATIONS: dict[str, Activation] = {
    "silu": silu,
    "gelu": gelu,
    "gelu_new": gelu_tanh,
    "gelu_fast": gelu_tanh,
    "gelu_pytorch_tanh": gelu_tanh,
}
"""By their names in config.json."""


def gated(activation: Activation) -> Activation:
    """[rows, 2 n], gates and values -> [rows, n]."""

    def gate(x: Tensor) -> Tensor:
        gates, values = x.chunk(2, dim=1)
        return activation(gates) * values

    return gate
