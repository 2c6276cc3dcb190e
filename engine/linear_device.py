"""Products for a GPU. They are only ever called with the same number of rows (see device_reader.py)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.int8_rounding import LEVELS, multiply_rounded, round_weight


class DenseLinear:
    """Weights and products in a floating dtype, sums in float32 inside the kernel."""

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """weight [out, in], bias [out] or None; any floating dtype, on the device."""
        self._weight = weight.to(dtype).contiguous()
        self._bias = None if bias is None else bias.to(dtype)
        self.weights = weight.numel()
        self.weight_bytes = self._weight.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        return functional.linear(x.to(self._weight.dtype), self._weight, self._bias).float()


class DeviceInt8Linear:
    """int8 weights and activations as in `engine.linear_packed.Int8Linear`, integer sums: exact."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype, on the device."""
        integers, self._factors = round_weight(weight, LEVELS)
        self._out, width = weight.shape
        # the kernel takes multiples of 8 only
        self._weight = functional.pad(integers, (0, -width % 8, 0, -self._out % 8)).contiguous()
        self._bias = None if bias is None else bias.float()
        self.weights = self.weight_bytes = weight.numel()

    def __call__(self, x: Tensor) -> Tensor:
        return multiply_rounded(x, self._product, self._bias)

    def _product(self, integers: Tensor) -> Tensor:
        padded = functional.pad(integers.to(torch.int8), (0, self._weight.shape[1] - integers.shape[1]))
        sums = torch._int_mm(padded, self._weight.T)
        return sums[:, : self._out].float() * self._factors
