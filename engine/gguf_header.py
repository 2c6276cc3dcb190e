"""The header of a GGUF file: its metadata and where its tensors lie.

The layout is llama.cpp's: github.com/ggml-org/ggml/blob/master/docs/gguf.md. The ``gguf`` package has a
reader too, but it makes a numpy view of each of the 300,000 strings of a vocabulary: 11 s against 1 s here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from engine.errors import DraftlineError

_SCALARS = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True)
class GgufTensor:
    """shape: outermost dimension first, as in numpy. offset, size: bytes, from the start of the file."""

    name: str
    shape: tuple[int, ...]
    quantization: GGMLQuantizationType
    offset: int
    size: int


class GgufFile:
    """metadata: key -> number, string, bool or list of these. tensors: by name, in the file's order."""

    def __init__(self, path: Path) -> None:
        """Read the header of ``path``; the tensors stay on disk.

        Raises:
            DraftlineError: no such file, no GGUF, a version or a quantisation that we cannot read, or a
                file that is shorter than its header says.
        """
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        try:
            with path.open("rb") as file:
                self._read(file)
        except OSError as error:
            raise DraftlineError(f"{path} cannot be read ({error.strerror}); check the path.") from error
        except (ValueError, KeyError, ArithmeticError) as error:
            raise DraftlineError(f"{path} is no readable GGUF file ({error}); download it again.") from error

    def data(self, tensor: GgufTensor) -> npt.NDArray[np.uint8]:
        """The tensor's bytes as they are on disk, uint8 [shape[0], bytes of each]."""
        shape = (tensor.shape[0], tensor.size // tensor.shape[0])
        return np.memmap(self.path, np.uint8, "r", offset=tensor.offset, shape=shape)

    def _read(self, file: BinaryIO) -> None:
        end = self.path.stat().st_size

        def take(size: int) -> bytes:
            if size > end - file.tell():
                raise ValueError("it is truncated")
            return file.read(size)

        if take(4) != b"GGUF":
            raise ValueError("it does not begin with the letters GGUF")
        version, tensor_count, key_count = struct.unpack("<IQQ", take(20))
        if version not in (2, 3):
            raise ValueError(f"version {version} is neither 2 nor 3")
        for _ in range(key_count):
            key = _string(take)
            self.metadata[key] = _value(take, _scalar(take, "<u4"))
        infos = [self._tensor_info(take) for _ in range(tensor_count)]
        alignment = int(self.metadata.get("general.alignment", 32))
        data_start = -(-file.tell() // alignment) * alignment
        for name, shape, quantization, offset in infos:
            block, block_bytes = GGML_QUANT_SIZES[quantization]
            if shape[-1] % block:
                raise ValueError(f"a row of {name} is no whole number of blocks")
            size = math.prod(shape) // block * block_bytes
            tensor = GgufTensor(name, shape, quantization, data_start + offset, size)
            if tensor.offset + size > end:
                raise ValueError("it is truncated")
            self.tensors[name] = tensor

    @staticmethod
    def _tensor_info(
        take: Callable[[int], bytes],
    ) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name = _string(take)
        dimensions = _scalar(take, "<u4")
        innermost_first = struct.unpack(f"<{dimensions}Q", take(8 * dimensions))
        if not innermost_first or 0 in innermost_first:
            raise ValueError(f"{name} is empty")
        quantization = GGMLQuantizationType(_scalar(take, "<u4"))
        return name, innermost_first[::-1], quantization, _scalar(take, "<u8")


def _scalar(take: Callable[[int], bytes], dtype: str) -> Any:
    return np.frombuffer(take(np.dtype(dtype).itemsize), dtype)[0].item()


def _string(take: Callable[[int], bytes]) -> str:
    (length,) = struct.unpack("<Q", take(8))
    return take(length).decode("utf-8")


def _value(take: Callable[[int], bytes], kind: int) -> Any:
    if kind == _STRING:
        return _string(take)
    if kind != _ARRAY:
        return _scalar(take, _SCALARS[kind])
    element, count = struct.unpack("<IQ", take(12))
    if element in _SCALARS:
        dtype = np.dtype(_SCALARS[element])
        return np.frombuffer(take(count * dtype.itemsize), dtype).tolist()
    return [_value(take, element) for _ in range(count)]
