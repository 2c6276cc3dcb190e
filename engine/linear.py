"""Matrix products in which rows never influence each other, and the choice of the one to use.

A tree of guesses is checked as rows of one product. The output is exactly the oracle's only if a row's
result does not depend on how many other rows there are, what they hold and which place it has: bit for bit.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import DraftlineError
from engine.linear_packed import Bf16Linear, Fp32Linear, Int8Linear
from engine.linear_portable import PortableFp32Linear, PortableInt8Linear


class Linear(Protocol):
    """x [rows, in] float32 -> [rows, out] float32."""

    weights: int  # as many multiplications and additions a row
    weight_bytes: int

    def __call__(self, x: Tensor) -> Tensor: ...


LinearKind = Callable[[Tensor, Tensor | None], Linear]
"""weight [out, in], bias [out] or None, both of any floating dtype -> their product."""

CPU_KINDS: dict[str, tuple[LinearKind, ...]] = {
    "fp32": (Fp32Linear, PortableFp32Linear),
    "bf16": (Bf16Linear,),
    "fp16": (),
    "int8": (Int8Linear, PortableInt8Linear),
}
"""What multiplies weights of a kind on a CPU, the fastest first."""


def choose_linear(weights: str) -> LinearKind:
    """The fastest product for ``weights``, a key of CPU_KINDS, that keeps rows apart on this processor.

    Raises:
        DraftlineError: there is none.
    """
    for kind in CPU_KINDS[weights]:
        if keeps_rows_apart(kind):
            return kind
    raise DraftlineError(
        f"This processor ({platform.machine()}) has no product of {weights} weights that is fast and keeps "
        "rows apart, as lossless guessing needs it: use int8 weights, which run on every processor."
    )


@functools.cache
def keeps_rows_apart(kind: LinearKind) -> bool:
    """Try a product of middling size: does it run, is it right, and is a row's result always the same?"""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(600, 1100, generator=generator)
    x = torch.randn(33, 1100, generator=generator)
    try:
        linear = kind(weight, None)
        alone = torch.cat([linear(row[None]) for row in x])
        together = [linear(x[-rows:]) for rows in (2, 5, 8, 9, 16, 17, 33)]
    except (AttributeError, RuntimeError):  # PyTorch lacks the kernel, or its build for this processor does
        return False
    exact = x.double() @ weight.double().T
    right = bool(((alone - exact).norm(dim=1) < 0.05 * exact.norm(dim=1)).all())
    return right and all(torch.equal(some, alone[-len(some) :]) for some in together)
