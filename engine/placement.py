"""Where a model runs and how its weights are held: what was asked for, or what the machine is best at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import psutil
import torch

from engine.errors import DraftlineError
from engine.linear import CPU_KINDS, LinearKind, choose_linear
from engine.linear_device import DenseLinear, DeviceInt8Linear

Weights = Literal["fp32", "bf16", "fp16", "int8"]
WEIGHTS: tuple[Weights, ...] = ("fp32", "bf16", "fp16", "int8")
WEIGHT_BYTES: dict[Weights, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
DTYPES: dict[Weights, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
DEVICES = ("auto", "cpu", "cuda")
SPARE_BYTES = 1 << 30  # of a GPU's memory, left for the cache, the kernels' work space and the desktop
SPARE_BYTES_CPU = 1 << 29  # for the cache and what a pass computes


@dataclass(frozen=True)
class Placement:
    """device: as torch calls it. weights: how they are held there."""

    device: str
    weights: Weights

    def linear(self) -> LinearKind:
        """The product of such weights there.

        Raises:
            DraftlineError: this processor has none.
        """
        if self.device == "cpu":
            return choose_linear(self.weights)
        if self.weights == "int8":
            return DeviceInt8Linear
        return partial(DenseLinear, dtype=DTYPES[self.weights])

    @property
    def cache_dtype(self) -> torch.dtype:
        """Of keys and values on a GPU."""
        return DTYPES.get(self.weights) or half()

    def fits(self, parameters: int) -> bool:
        """Whether so many weights have room there now.

        Where the CPU's memory is short the system would grant it all the same, and kill whoever uses it.
        """
        size = parameters * WEIGHT_BYTES[self.weights]
        if self.device == "cpu":
            available: int = psutil.virtual_memory().available
            return size + SPARE_BYTES_CPU <= available
        free, _ = torch.cuda.mem_get_info()
        return size + SPARE_BYTES <= free

    @property
    def memory(self) -> str:
        """What to call the memory there, in a sentence."""
        return "this machine's memory" if self.device == "cpu" else "the GPU's memory"


def half() -> torch.dtype:
    """The 16-bit floats that the GPU computes with: bfloat16, or float16 on those before Ampere."""
    return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16


def placements(device: str, weights: str) -> list[Placement]:
    """What to try in turn, the best first, until one has room.

    device: auto is the GPU if PyTorch sees one, else the CPU. weights: auto is 16-bit floats on a GPU and
    int8, the fastest, on a CPU; where these have no room on a GPU, int8, and then on the CPU, if that was
    left open. On the CPU as well int8 comes after any other kind.

    Raises:
        DraftlineError: a device or kind of weights that there is not.
    """
    if device not in DEVICES:
        raise DraftlineError(f"There is no device {device!r} for Draftline; choose {' or '.join(DEVICES)}.")
    asked = [kind for kind in WEIGHTS if kind == weights]
    if not asked and weights != "auto":
        raise DraftlineError(
            f"There are no weights of kind {weights!r}; choose auto, "
            f"{', '.join(WEIGHTS[:-1])} or {WEIGHTS[-1]}."
        )
    found: list[Placement] = []
    if device != "cpu":
        if torch.cuda.is_available():
            on_gpu: list[Weights] = asked or ["bf16" if half() is torch.bfloat16 else "fp16", "int8"]
            found += [Placement("cuda", kind) for kind in on_gpu]
        elif device == "cuda":
            raise DraftlineError(
                "PyTorch sees no CUDA GPU; install its CUDA build and the driver, or choose the device cpu."
            )
    if device != "cuda":
        # a CPU has no fp16 product: whoever asked for it had a GPU in mind
        on_cpu = [kind for kind in asked if CPU_KINDS[kind] or not found]
        found += [Placement("cpu", kind) for kind in dict.fromkeys([*on_cpu, WEIGHTS[-1]])]
    return found


def is_out_of_memory(error: Exception) -> bool:
    """Whether torch or Python had no memory left; on a CPU torch has no type of its own for that."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and "allocate" in str(error) and "memory" in str(error)
    )
