"""A transformer with the text it has read: what the oracle and each draft are made of."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.cost_model import StepTimes
from engine.request import CancelToken, Spent
from engine.sampling import Logits
from engine.transformer import Transformer

TYPICAL_TEXT = 256  # committed tokens when step times are measured
PREFILL_ROWS = (
    128  # prompt tokens a forward pass: enough to be bound by arithmetic, few enough to cancel soon
)


class Reader:
    """The model, its cache, and the tokens whose keys and values the cache holds (``text``).

    spent: what its passes used since the start, reading of prompts included.
    """

    def __init__(self, transformer: Transformer, capacity: int) -> None:
        self.transformer = transformer
        self.cache = transformer.new_cache(capacity)
        self.text: list[int] = []
        self.spent = Spent()

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
            started = time.perf_counter()
            self._forward(chunk, range(start, start + rows), visible)
            self._note(rows, visible, False, started)
            self.commit(range(start, start + rows), chunk)
        return True

    def logits(self, tokens: Sequence[int], positions: Sequence[int], visible: Tensor | None) -> Logits:
        """One forward pass (see `Transformer.forward`) -> [rows, vocab]."""
        started = time.perf_counter()
        logits: Logits = self.transformer.logits(self._forward(tokens, positions, visible)).numpy()
        self._note(len(tokens), visible, True, started)
        return logits

    def _forward(self, tokens: Sequence[int], positions: Sequence[int], visible: Tensor | None) -> Tensor:
        return self.transformer.forward(torch.tensor(tokens), torch.tensor(positions), self.cache, visible)

    def _note(self, rows: int, visible: Tensor | None, head: bool, started: float) -> None:
        slots = self.cache.length + (rows if visible is None else visible.shape[1])
        read, operations = self.transformer.traffic(rows, slots, head)
        self.spent += Spent(1, rows, read, operations, time.perf_counter() - started)

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
                self.logits([0] * count, range(count), visible)
                seconds.append(time.perf_counter() - started)
            best.append(min(seconds))
        self.cache.truncate(0)
        return StepTimes(tuple(rows), tuple(best))
