"""Matrix products with prepacked weights, in which rows never influence each other.

A tree of guesses is checked as rows of one product. The output is exactly the oracle's only if a row's
result does not depend on how many other rows there are, so each kind keeps that promise bit for bit:

* int8: each row is scaled by its own maximum, products are summed as integers (exact in any order).
* fp32: oneDNN's packed product runs the same kernel from two rows on, so a single row is padded.
"""

from __future__ import annotations

import functools
import platform
import warnings
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.errors import DraftlineError

FP32_ROWS = 8  # cost no more than one in a packed fp32 product: the weights are read once either way


class Linear(Protocol):
    """x [rows, in] float32 -> [rows, out] float32."""

    weights: int  # as many multiplications and additions a row
    weight_bytes: int

    def __call__(self, x: Tensor) -> Tensor: ...


class Fp32Linear:
    """float32 weights, packed once for oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        dense = weight.float().contiguous()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(dense, FP32_ROWS)
        self._bias = None if bias is None else bias.float()
        self.weights = dense.numel()
        self.weight_bytes = dense.numel() * 4

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        if rows < FP32_ROWS:
            x = functional.pad(x, (0, 0, 0, FP32_ROWS - rows))
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return out[:rows]


class Int8Linear:
    """int8 weights, one scale per output row; activations rounded to int8, one scale per input row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        dense = weight.float()
        scale = dense.abs().amax(dim=1).clamp_min(1e-12) / 127
        integers = (dense / scale[:, None]).round_().to(torch.int8)
        self._packed = _pack_int8(integers, scale)
        self._bias = None if bias is None else bias.float()
        self._levels = activation_levels()
        self.weights = self.weight_bytes = integers.numel()

    def __call__(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(dim=1, keepdim=True).clamp_min_(1e-12)
        out = _product_int8(x / largest, self._packed, self._levels)
        out *= largest
        if self._bias is not None:
            out += self._bias
        return out


def check_processor(kind: type[Fp32Linear] | type[Int8Linear]) -> None:
    """Try a small product of this kind.

    Raises:
        DraftlineError: PyTorch has none for this processor (seen where its only engine is qnnpack: ARM).
    """
    try:
        kind(torch.ones(16, 64), None)(torch.ones(1, 64))
    except (AttributeError, RuntimeError) as error:
        raise DraftlineError(
            f"PyTorch {torch.__version__} has no packed products for this processor ({platform.machine()}); "
            "Draftline needs an x86-64 machine for now."
        ) from error


@functools.cache
def activation_levels() -> int:
    """The largest activation magnitude whose int8 products this CPU sums without saturating: 127, or 63.

    Without VNNI the product adds pairs in 16 bits, and two products of an 8-bit activation do not fit.
    """
    length = 64
    packed = _pack_int8(torch.full((16, length), 127, dtype=torch.int8), torch.ones(16))
    exact = torch.allclose(_product_int8(torch.ones(2, length), packed, 127), torch.tensor(length * 127.0))
    return 127 if exact else 63


def _pack_int8(integers: Tensor, scale: Tensor) -> object:
    zero_points = torch.zeros(integers.shape[0], dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of its quantized tensors at every use
        quantized = torch._make_per_channel_quantized_tensor(integers, scale.double(), zero_points, 0)
        return torch.ops.quantized.linear_prepack(quantized, None)


def _product_int8(x: Tensor, packed: object, levels: int) -> Tensor:
    """Round x [rows, in], all within [-1, 1], to ``levels`` steps and multiply -> [rows, out] float32."""
    out: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
        x, 1 / levels, levels + 1, packed
    )
    return out
