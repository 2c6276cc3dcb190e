"""A `Reader` whose model lives on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.device_step import TOP, DeviceStep
from engine.errors import DraftlineError
from engine.kv_cache import KVCache
from engine.reader import PREFILL_ROWS, Reader
from engine.request import CancelToken
from engine.sampling import Logits, Row
from engine.transformer import Transformer

STEP_ROWS = 32  # of every pass that checks a tree, plain decoding's single row included: see below
_ALIGNED = 64  # fused kernels want the number of slots to be a multiple of 8 at least


class DeviceRow(Row):
    """A row whose best tokens the host has been told; the rest is fetched when it is asked for."""

    def __init__(self, top: NDArray[np.float64], logits: Tensor) -> None:
        """top: [2 TOP + 1], see `DeviceStep.run`. logits: [vocab] on the device."""
        self._ids, self._values, self._total = top[:TOP].astype(np.int64), top[TOP:-1], top[-1]
        self._on_device = logits

    @property
    def logits(self) -> Logits:
        logits: Logits = self._on_device.cpu().numpy()
        return logits

    def best(self) -> int:
        return self.likeliest(1)[0][0]

    def likeliest(self, k: int) -> list[tuple[int, float]]:
        if not np.isfinite(self._values[0]):
            raise DraftlineError("The model computes values that are not numbers; fetch it again.")
        possible = self._values > -np.inf
        ids, values = self._ids[possible], self._values[possible]
        order = np.lexsort((ids, -values))[:k]
        return [(int(ids[at]), float(np.exp(values[at] - self._total))) for at in order]


class DeviceReader(Reader):
    """Every pass over a tree has STEP_ROWS rows and sees all of the cache, most of it masked.

    On a GPU that costs next to nothing, because reading the weights takes the time. And the same kernels run
    in plain and in staged decoding, which is as near to exact as floating-point attention comes (see
    fused_attention.py); the CPU's fixed-point attention needs fast float64, which such GPUs have not.
    """

    def __init__(self, transformer: Transformer, capacity: int, dtype: torch.dtype, graphs: bool) -> None:
        """dtype: of keys and values. graphs: capture the passes as CUDA graphs."""
        self._dtype = dtype
        super().__init__(transformer, capacity)
        self._pool = torch.cuda.graph_pool_handle() if graphs else None
        self._steps: dict[tuple[int, int, bool], DeviceStep] = {}

    def _new_cache(self, capacity: int) -> KVCache:
        return self.transformer.new_cache(-(-(capacity + 1) // _ALIGNED) * _ALIGNED, self._dtype)

    def _run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        visible: Tensor | None,
        head: bool,
        cancel: CancelToken | None,
    ) -> Sequence[Row]:
        seen = np.ones((1, 1), dtype=np.bool_) if visible is None else visible.numpy()
        step = self._step(len(tokens), seen.shape[1], head)
        top = step.run(tokens, positions, seen)
        if top is None or step.logits is None:
            return []
        return [DeviceRow(row.copy(), logits) for row, logits in zip(top, step.logits, strict=False)]

    def _step(self, rows: int, behind: int, head: bool) -> DeviceStep:
        """The step for so many rows and slots behind the text, captured when it is first needed."""
        size = width = STEP_ROWS if rows <= STEP_ROWS else PREFILL_ROWS
        while width < behind:
            width *= 2
        key = (size, width, head)
        if key not in self._steps:
            self._steps[key] = DeviceStep(self.transformer, self.cache, size, width, head, self._pool)
        return self._steps[key]
