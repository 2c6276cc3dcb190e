"""What goes into a generation and what comes out of it, cycle by cycle. No tensors here."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Literal

from engine.errors import DraftlineError

Mode = Literal["plain", "standard", "staged"]
MODES: tuple[Mode, ...] = ("plain", "standard", "staged")
ApproximationName = Literal["draft", "trigram", "bigram", "unigram", "lookup", "random"]
APPROXIMATIONS: tuple[ApproximationName, ...] = ("draft", "trigram", "bigram", "unigram", "lookup", "random")
Origin = Literal["draft2", "draft", "oracle"]


@dataclass(frozen=True)
class SamplingParams:
    """How to decode one prompt.

    max_tokens: at most so many new tokens. temperature: 0 is greedy. top_k: only the k likeliest tokens, 0
    for all. top_p: only the likeliest tokens that together reach this probability. seed: the noise; the
    same seed gives the same text in plain and staged mode. stop_ids: token ids that end the text; the one
    that did is not emitted. mode: ``plain`` asks the oracle for one token at a time; ``staged`` lets the
    stages below it guess; ``standard`` is speculative decoding as published: a chain of ``gamma`` tokens
    sampled from ``approximation``, with ``lenience`` 1 for the oracle's law.

    Raises:
        DraftlineError: a value out of its range, by name.
    """

    max_tokens: int = 64
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    stop_ids: tuple[int, ...] = ()
    mode: Mode = "staged"
    approximation: ApproximationName = "trigram"
    gamma: int = 5
    lenience: float = 1.0

    def __post_init__(self) -> None:
        if self.max_tokens < 0:
            raise DraftlineError(f"max_tokens is {self.max_tokens}; it must be 0 or more.")
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise DraftlineError(f"temperature is {self.temperature}; it must be 0 (greedy) or more.")
        if self.top_k < 0:
            raise DraftlineError(f"top_k is {self.top_k}; it must be 0 (all tokens) or more.")
        if not 0 < self.top_p <= 1:
            raise DraftlineError(f"top_p is {self.top_p}; it must be above 0 and at most 1.")
        if self.mode not in MODES:
            raise DraftlineError(f"There is no mode {self.mode!r}; choose {', '.join(MODES)}.")
        if self.approximation not in APPROXIMATIONS:
            raise DraftlineError(
                f"There is no approximation {self.approximation!r}; choose {', '.join(APPROXIMATIONS)}."
            )
        if self.gamma < 1:
            raise DraftlineError(f"gamma is {self.gamma}; it must be 1 or more.")
        if not 0 < self.lenience <= 1:
            raise DraftlineError(f"lenience is {self.lenience}; it must be above 0 and at most 1.")


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
