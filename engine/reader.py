"""A transformer with the text it has read: what the oracle and each draft are made of."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.cost_model import StepTimes
from engine.kv_cache import KVCache
from engine.request import Cancelled, CancelToken, Spent
from engine.sampling import Row
from engine.transformer import Transformer

TYPICAL_TEXT = 256  # committed tokens when step times are measured
PREFILL_ROWS = 128  # prompt tokens a forward pass: enough to be bound by arithmetic


class Reader:
    """The model, its cache, and the tokens whose keys and values the cache holds (``text``).

    spent: what its passes used since the start, reading of prompts included.
    """

    def __init__(self, transformer: Transformer, capacity: int) -> None:
        self.transformer = transformer
        self.cache = self._new_cache(capacity)
        self.text: list[int] = []
        self.spent = Spent()

    def _new_cache(self, capacity: int) -> KVCache:
        return self.transformer.new_cache(capacity)

    def keep(self, text: Sequence[int]) -> None:
        """Forget all that is not a beginning of ``text``."""
        shared = 0
        while shared < min(len(text), len(self.text)) and text[shared] == self.text[shared]:
            shared += 1
        self.cache.truncate(shared)
        del self.text[shared:]

    def read(self, text: Sequence[int], cancel: CancelToken) -> bool:
        """Bring ``text`` into the cache; what it already holds is kept. Returns False if cancelled."""
        self.keep(text)
        for start in range(len(self.text), len(text), PREFILL_ROWS):
            if cancel.cancelled:
                return False
            chunk = text[start : start + PREFILL_ROWS]
            rows = len(chunk)
            visible = torch.ones(rows, rows, dtype=torch.bool).tril()
            try:
                self._pass(chunk, range(start, start + rows), visible, False, cancel)
            except Cancelled:
                return False
            self.commit(range(start, start + rows), chunk)
        return True

    def rows(self, tokens: Sequence[int], positions: Sequence[int], visible: Tensor | None) -> Sequence[Row]:
        """One forward pass (see `Transformer.forward`) -> what follows each token. Valid until the next."""
        return self._pass(tokens, positions, visible, True)

    def _pass(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        visible: Tensor | None,
        head: bool,
        cancel: CancelToken | None = None,
    ) -> Sequence[Row]:
        started = time.perf_counter()
        rows = self._run(tokens, positions, visible, head, cancel)
        slots = self.cache.length + (len(tokens) if visible is None else visible.shape[1])
        read, operations = self.transformer.traffic(len(tokens), slots, head)
        read += slots * self.cache.slot_bytes
        self.spent += Spent(1, len(tokens), read, operations, time.perf_counter() - started)
        return rows

    def _run(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        visible: Tensor | None,
        head: bool,
        cancel: CancelToken | None,
    ) -> Sequence[Row]:
        hidden = self.transformer.forward(
            torch.tensor(tokens), torch.tensor(positions), self.cache, visible, cancel
        )
        return [Row(logits) for logits in self.transformer.logits(hidden).numpy()] if head else []

    def commit(self, slots: Sequence[int], tokens: Sequence[int]) -> None:
        """Move ``slots``, which hold ``tokens``, behind the text."""
        self.cache.commit(slots)
        self.text += tokens

    def measure(self, rows: Sequence[int], repeats: int = 3) -> StepTimes:
        """Time a forward pass of each row count behind a text of typical length; the fastest counts."""
        self.keep([])
        self.cache.length = min(TYPICAL_TEXT, self.cache.capacity - max(rows))
        best = []
        for count in rows:
            visible = torch.ones(count, count, dtype=torch.bool).tril()
            seconds = []
            for _ in range(repeats):
                started = time.perf_counter()
                self.rows([0] * count, range(count), visible)
                seconds.append(time.perf_counter() - started)
            best.append(min(seconds))
        self.cache.truncate(0)
        return StepTimes(tuple(rows), tuple(best))
