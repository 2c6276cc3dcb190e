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

SHORT_TEXT, LONG_TEXT = 256, 1280  # committed tokens when step times are measured
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

    def measure(self, rows: Sequence[int], repeats: int = 2) -> StepTimes:
        """Time a pass of each row count behind a short text and a long one, in turns; the fastest counts."""
        self.keep([])
        most = self.cache.capacity - max(rows)
        short, long = min(SHORT_TEXT, most), min(LONG_TEXT, most)
        here, there = [], []
        for count in rows:
            turns = [(self._seconds(count, short), self._seconds(count, long)) for _ in range(repeats)]
            behind_short, behind_long = zip(*turns, strict=True)
            here.append(min(behind_short))
            there.append(min(behind_long))
        self.cache.truncate(0)
        more = zip(here, there, strict=True) if long > short else ()
        growth = tuple(max(0.0, after - before) / (long - short) for before, after in more)
        return StepTimes(tuple(rows), tuple(here), short, growth)

    def _seconds(self, rows: int, text: int) -> float:
        self.cache.length = text
        visible = torch.ones(rows, rows, dtype=torch.bool).tril()
        started = time.perf_counter()
        self.rows([0] * rows, range(rows), visible)
        return time.perf_counter() - started
