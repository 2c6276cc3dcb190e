"""Products made of nothing but an ordinary float32 matrix product: for processors without packed ones.

ARM (Apple silicon, Linux on aarch64) is the case in mind. Written with care and tested on x86-64; nobody
has run it on such a machine yet.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from engine.int8_rounding import multiply_rounded, round_weight

BLOCK_ROWS = 8  # of every float32 product
EXACT_WIDTH = 1024  # 1024 * 127 * 127 < 2**24: every partial sum is an integer that float32 holds
_BLOCK_OUTS = 512  # with EXACT_WIDTH columns, 2 MB as float32: the processor's caches hold it


class PortableFp32Linear:
    """float32 weights; always blocks of 8 rows, so that the kernel does not depend on the number of rows.

    Whether a row's place in its block matters is up to the processor's library: see `engine.linear`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        self._weight = weight.float().contiguous()
        self._bias = None if bias is None else bias.float()
        self.weights = weight.numel()
        self.weight_bytes = self.weights * 4

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.shape[0]
        blocks = torch.split(functional.pad(x, (0, 0, 0, -rows % BLOCK_ROWS)), BLOCK_ROWS)
        return torch.cat([functional.linear(block, self._weight, self._bias) for block in blocks])[:rows]


class PortableInt8Linear:
    """int8 weights, turned block by block into float32 integers; bit for bit what `Int8Linear` gives.

    A sum over EXACT_WIDTH columns is exact in any order, fused or not, also where the library rounds the
    factors to bfloat16 or TF32 (`torch.set_float32_matmul_precision`, ONEDNN_DEFAULT_FPMATH_MODE): those
    hold all integers up to 256 and sum in float32. Sums of sums are taken in float64.

    Holding the weights as float32 would read four times as much memory and is no faster: 6 products of
    896 x 4864 on one core took 14, 17 and 25 ms at 1, 2 and 8 rows with blocks, 24, 29 and 25 without.
    Beside the packed product it is slow: on one core with VNNI a step of the 0.5B took 94 and 318 ms at 1 and
    8 rows instead of 62 and 66 (a busy machine, the least of six).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, levels: int = 127) -> None:
        """weight [out, in], bias [out] or None; any floating dtype. levels: see `weight_levels`."""
        integers, self._steps = round_weight(weight, levels)
        self._blocks = [
            [block.contiguous() for block in torch.split(outs, EXACT_WIDTH, dim=1)]
            for outs in torch.split(integers, _BLOCK_OUTS)
        ]
        self._bias = None if bias is None else bias.float()
        self.weights = self.weight_bytes = integers.numel()

    def __call__(self, x: Tensor) -> Tensor:
        return multiply_rounded(x, self._product, self._bias)

    def _product(self, integers: Tensor) -> Tensor:
        parts = torch.split(integers, EXACT_WIDTH, dim=1)
        return torch.cat([_exact_sums(parts, blocks) for blocks in self._blocks], dim=1).mul_(self._steps)


def _exact_sums(parts: tuple[Tensor, ...], blocks: list[Tensor]) -> Tensor:
    """parts: integers [rows, at most EXACT_WIDTH] float32; blocks: [outs, likewise] int8 -> [rows, outs]."""
    sums = functional.linear(parts[0], blocks[0].float())
    if len(parts) > 1:
        wide = sums.double()
        for part, block in zip(parts[1:], blocks[1:], strict=True):
            wide += functional.linear(part, block.float())
        sums = wide.float()
    return sums
