"""Products with weights packed for this processor's own kernels: the fastest there are, where there are any.

* int8: exact, because the integers are. PyTorch runs these kernels on x86-64.
* fp32 and bf16: oneDNN's packed product runs the same kernel from two rows on, so a single row is padded.

Milliseconds by rows, 12 products of 896 x 4864 (one core of an AMD EPYC with AVX-512 BF16 and VNNI, others
at work on the machine, least of six):

    rows             1     2     4     8    16    32
    int8             5     4     4     9    15    20
    bf16            17    17    17    13    24    39
    fp32            36    34    34    35    45    75
    fp16, unpacked  10    21    37    87   167   332

There is no packed fp16 product, and the unpacked one costs each row anew, so fp16 is not offered on a CPU.
oneDNN packs bf16 only on processors with AVX-512 (or AVX-NE-CONVERT).
"""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor
from torch.nn import functional

from engine.int8_rounding import LEVELS, multiply_rounded, round_weight

FEWEST_ROWS = 8  # cost no more than one in a packed product: the weights are read once either way
# Rows of int8 weights. Packing goes down the columns, so more fall out of the caches: a head of 151936 rows
# took 2.0 to 2.9 s of one core at once, 1.2 in three pieces, 1.0 in sixteen; and what the pieces give has to
# be put together, 0.1 to 0.5 ms of a product's 7 to 9.
_MOST_AT_ONCE = 1 << 16


class Fp32Linear:
    """float32 weights, packed once for oneDNN."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        self._packed = _pack_floats(weight.float())
        self._bias = None if bias is None else bias.float()
        self.weights = weight.numel()
        self.weight_bytes = self.weights * 4

    def __call__(self, x: Tensor) -> Tensor:
        return _product_floats(x, self._packed, self._bias)


class Bf16Linear:
    """bfloat16 weights, packed once for oneDNN; activations and results are rounded to bfloat16."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        self._packed = _pack_floats(weight.bfloat16())
        self._bias = None if bias is None else bias.float()
        self.weights = weight.numel()
        self.weight_bytes = self.weights * 2

    def __call__(self, x: Tensor) -> Tensor:
        out = _product_floats(x.bfloat16(), self._packed, None).float()
        return out if self._bias is None else out.add_(self._bias)


class Int8Linear:
    """int8 weights, one scale per output row; activations rounded to int8, one scale per input row."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """weight [out, in], bias [out] or None; any floating dtype."""
        integers, steps = round_weight(weight, weight_levels())
        pieces = (torch.split(one, _MOST_AT_ONCE) for one in (integers, steps))
        self._packed = [_pack_int8(*piece) for piece in zip(*pieces, strict=True)]
        self._bias = None if bias is None else bias.float()
        self.weights = self.weight_bytes = weight.numel()

    def __call__(self, x: Tensor) -> Tensor:
        return multiply_rounded(x, self._product, self._bias)

    def _product(self, integers: Tensor) -> Tensor:
        if len(self._packed) == 1:
            return _product_int8(integers, self._packed[0])
        return torch.cat([_product_int8(integers, piece) for piece in self._packed], dim=1)


@functools.cache
def weight_levels() -> int:
    """The largest weight magnitude whose int8 products this CPU sums without saturating: 127, or 64.

    Without VNNI the product adds pairs in 16 bits. An activation is stored as 1 to 255, so two products fit
    while weights are at most 64 (2 * 255 * 64 < 2**15). Fewer levels of the weights cost less than fewer of
    the activations, whose rows have outliers: the 0.5B's perplexity on code rises by 0.7 % with 64 and 127
    levels, by 1.75 % with 127 and 63, by 0.54 % with 127 and 127 (tests/benchmarks/quality.py). Two products
    with halves of the activations would keep 127 and 127, at up to twice the time.
    """
    length = 64
    packed = _pack_int8(torch.full((16, length), 127, dtype=torch.int8), torch.ones(16))
    sums = _product_int8(torch.full((2, length), float(LEVELS)), packed)
    return 127 if bool((sums == length * 127 * LEVELS).all()) else 64


def _pack_floats(dense: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(dense.contiguous(), FEWEST_ROWS)
    return packed


def _product_floats(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    rows = x.shape[0]
    if rows < FEWEST_ROWS:
        x = functional.pad(x, (0, 0, 0, FEWEST_ROWS - rows))
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    return out[:rows]


def _pack_int8(integers: Tensor, steps: Tensor) -> object:
    zero_points = torch.zeros(integers.shape[0], dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces the end of its quantized tensors at every use
        quantized = torch._make_per_channel_quantized_tensor(integers, steps.double(), zero_points, 0)
        return torch.ops.quantized.linear_prepack(quantized, None)


def _product_int8(integers: Tensor, packed: object) -> Tensor:
    """integers [rows, in] float32 from -LEVELS to LEVELS -> [rows, out] float32, in the weights' steps."""
    out: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
        integers, 1.0, LEVELS + 1, packed
    )
    return out
