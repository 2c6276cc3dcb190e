"""What the host has done in the last hour."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

SPAN = 3600.0  # seconds


@dataclass(frozen=True)
class Done:
    """Of one request, or of several: accepted are the tokens that a stage below the oracle had proposed;
    seconds is what decoding took, the prompt's reading not counted."""

    requests: int = 0
    tokens: int = 0
    accepted: int = 0
    seconds: float = 0.0

    def __add__(self, other: Done) -> Done:
        return Done(
            self.requests + other.requests,
            self.tokens + other.tokens,
            self.accepted + other.accepted,
            self.seconds + other.seconds,
        )


class Tally:
    """Kept minute by minute. For one thread to add to, and any to read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._minutes: deque[tuple[int, Done]] = deque(maxlen=int(SPAN // 60))

    def add(self, done: Done) -> None:
        minute = int(self._clock() // 60)
        if self._minutes and self._minutes[-1][0] == minute:
            done += self._minutes.pop()[1]
        self._minutes.append((minute, done))

    def sum(self) -> Done:
        now = int(self._clock() // 60)
        recent = (done for minute, done in tuple(self._minutes) if now - minute < SPAN // 60)
        return sum(recent, Done())
