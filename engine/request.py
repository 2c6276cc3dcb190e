"""What goes into a generation and what comes out of it, cycle by cycle. No tensors here."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

Mode = Literal["plain", "staged"]
Origin = Literal["draft2", "draft", "oracle"]


@dataclass(frozen=True)
class SamplingParams:
    """How to decode one prompt.

    max_tokens: at most so many new tokens.
    stop_ids: token ids that end the text; the one that did is not emitted.
    mode: ``plain`` asks the oracle for one token at a time; ``staged`` lets the stages below it guess.
    """

    max_tokens: int = 64
    stop_ids: tuple[int, ...] = ()
    mode: Mode = "staged"


class CancelToken:
    """Set from any thread; the loop looks at it between forward passes."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()


@dataclass(frozen=True)
class Cycle:
    """What one cycle emitted.

    tokens: new token ids, in order. origins: for each, the stage that first proposed it
    (``oracle`` if none did). rows: rows of the oracle's forward pass. seconds: the cycle's duration.
    """

    tokens: list[int]
    origins: list[Origin]
    rows: int
    seconds: float
