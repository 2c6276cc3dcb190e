"""How long the engine will take to read a prompt, and so how long a prompt may be.

The first suggestion at a new place waits until the prompt has been read, which on a CPU takes seconds for the
usual 1,900 tokens. Who waits for it is better served by a shorter prompt at once; the whole one is read when
nobody waits. Then it is in the engine's KV cache, and costs little more than what was typed since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

_TELLING = 64  # tokens; fewer take a pass's time whatever their number


class Reading:
    """What an engine's cache holds, as far as one who asks can tell, and how quickly it reads the rest."""

    def __init__(self, per_token: float, clock: Callable[[], float] = time.perf_counter) -> None:
        """per_token: seconds that a token takes, as far as is known before any was read."""
        self._clock = clock
        self._per_token = self._confirmed = per_token
        self._read: Sequence[int] = ()
        self._begun: tuple[Sequence[int], float] | None = None

    def seconds(self, prompt: Sequence[int]) -> float:
        """How long it will take to read what of ``prompt`` has not been read yet."""
        return self._unread(prompt) * self._per_token

    def begins(self, prompt: Sequence[int]) -> None:
        self._begun = prompt, self._clock()

    def ends(self, whole: bool) -> None:
        """whole: the prompt is read; else reading was broken off. What was not begun does not end."""
        if self._begun is None:
            return
        prompt, begun = self._begun
        unread, taken = self._unread(prompt), self._clock() - begun
        if whole or not unread:
            self._read = prompt
            if unread >= _TELLING:
                self._per_token += (taken / unread - self._per_token) / 2
                self._confirmed = self._per_token
        else:
            expected = unread * self._per_token
            read = taken / expected if taken < expected else expected / taken
            self._read = prompt[: len(prompt) - unread + int(unread * read)]
            if unread >= _TELLING and taken > expected:
                # It takes longer, who knows how much: the engine may have been somebody else's meanwhile.
                self._per_token = min(taken / unread, 2 * self._confirmed)
        self._begun = None

    def forget(self) -> None:
        """The cache holds something else."""
        self._read = ()

    def _unread(self, prompt: Sequence[int]) -> int:
        pairs = enumerate(zip(self._read, prompt, strict=False))
        same = next((at for at, (old, new) in pairs if old != new), min(len(self._read), len(prompt)))
        return len(prompt) - same
