"""One forward pass in shapes that never change, captured as a CUDA graph where there is CUDA.

A small model's pass is hundreds of small kernels, and launching them from Python takes longer than running
them. A graph launches all of them at once. It runs on the memory it was captured with, so what a pass is
told goes through static buffers: one copy to the device before it, one back after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.fused_attention import FusedAttention
from engine.kv_cache import KVCache
from engine.transformer import Transformer

TOP = 8  # tokens of each row that the host is told of: more than any stage asks for
_WARM_UP = 2  # passes before capture, so that libraries have chosen their kernels and taken their memory


class DeviceStep:
    """A pass of ``rows`` rows that see the committed text and ``behind`` slots behind it.

    logits: [rows, vocab] float32 on the device, of the latest pass; None without the head.
    """

    def __init__(
        self,
        transformer: Transformer,
        cache: KVCache,
        rows: int,
        behind: int,
        head: bool,
        pool: Any = None,
    ) -> None:
        """The cache's last slot is scratch. pool: what torch.cuda.graph_pool_handle gave, the memory that
        graphs share; None runs eagerly."""
        self._transformer = transformer
        self._cache = cache
        self._rows, self._behind = rows, behind
        self._head = head
        device = cache.keys[0].device
        pinned = device.type == "cuda"
        # [tokens | positions | the rows' slots | the slots behind the text | length | visible, row by row]
        size = 3 * rows + behind + 1 + rows * behind
        self._told = torch.zeros(size, dtype=torch.int32, pin_memory=pinned)
        self._told_copied = torch.cuda.Event() if pinned else None  # type: ignore[no-untyped-call]
        self._input = torch.zeros(size, dtype=torch.int32, device=device)
        # until it is told otherwise, every row is written to the scratch slot and sees it: a pass made before
        # capture, in the middle of a request, must not touch the text
        self._input[2 * rows : 3 * rows + behind] = cache.capacity - 1
        self._input[-rows * behind :] = 1
        self._slots = torch.arange(cache.capacity, device=device)
        self.logits: Tensor | None = None
        self._top: Tensor | None = None
        self._answer = torch.zeros((rows, 2 * TOP + 1), dtype=torch.float64, pin_memory=pinned)
        self._graph: torch.cuda.CUDAGraph | None = None
        if pool is not None:
            self._capture(pool)

    def run(
        self, tokens: Sequence[int], positions: Sequence[int], visible: NDArray[np.bool_]
    ) -> NDArray[np.float64] | None:
        """visible: [len(tokens), behind or fewer]: which slots behind the text each row sees, the last being
        the rows themselves. At most ``rows`` tokens.

        Returns [len(tokens), 2 TOP + 1]: the ids of the likeliest tokens, the first of equals first, their
        logits, and the logarithm of the sum of all exp(logit). None without the head.
        """
        count, (_, columns) = len(tokens), visible.shape
        rows, behind, length = self._rows, self._behind, self._cache.length
        scratch = self._cache.capacity - 1
        if self._told_copied is not None:
            self._told_copied.synchronize()
        told = self._told.numpy()
        told[: 3 * rows + behind] = 0
        told[2 * rows : 3 * rows + behind] = scratch
        told[:count] = tokens
        told[rows : rows + count] = positions
        told[2 * rows : 2 * rows + count] = np.arange(length + columns - count, length + columns)
        told[3 * rows : 3 * rows + columns] = np.arange(length, length + columns)
        told[3 * rows + behind] = length
        seen = told[3 * rows + behind + 1 :].reshape(rows, behind)
        seen[:] = 0
        seen[:count, :columns] = visible
        seen[count:, :columns] = visible[0]  # a row that sees nothing at all would be not a number
        self._input.copy_(self._told, non_blocking=True)
        if self._told_copied is not None:
            self._told_copied.record()
        if self._graph is None:
            self._forward()
        else:
            self._graph.replay()
        if self._top is None:
            return None
        self._answer.copy_(self._top, non_blocking=True)
        if self._input.is_cuda:
            torch.cuda.current_stream().synchronize()
        return self._answer.numpy()[:count]

    def _forward(self) -> None:
        rows, behind = self._rows, self._behind
        told = self._input.long()
        sizes = [rows, rows, rows, behind, 1, rows * behind]
        tokens, positions, slots, tree, length, seen = torch.split(told, sizes)
        visible = (self._slots < length).expand(rows, -1).clone()
        visible.index_copy_(1, tree, seen.view(rows, behind).bool())
        attend = FusedAttention(self._transformer.config, self._cache, slots, visible)
        hidden = self._transformer.run(tokens, positions, attend)
        if not self._head:
            return
        self.logits = logits = self._transformer.logits(hidden)
        values, ids = logits.topk(TOP, dim=1)
        self._top = torch.cat([ids.double(), values.double(), logits.logsumexp(1, True).double()], dim=1)

    def _capture(self, pool: Any) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._forward()
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._forward()
