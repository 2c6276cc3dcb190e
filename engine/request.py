"""What goes into a generation and what comes out of it, cycle by cycle. No tensors here."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from typing import Literal

from engine.errors import DraftlineError

Mode = Literal["plain", "standard", "staged"]
MODES: tuple[Mode, ...] = ("plain", "standard", "staged")
ApproximationName = Literal["draft", "trigram", "bigram", "unigram", "lookup", "random"]
APPROXIMATIONS: tuple[ApproximationName, ...] = ("draft", "trigram", "bigram", "unigram", "lookup", "random")
Origin = Literal["draft2", "draft", "oracle"]
Guessers = Literal["all", "draft", "draft2"]
GUESSERS: tuple[Guessers, ...] = ("all", "draft", "draft2")
Shape = Literal["tree", "chain"]
SHAPES: tuple[Shape, ...] = ("tree", "chain")


@dataclass(frozen=True)
class SamplingParams:
    """How to decode one prompt.

    max_tokens: at most so many new tokens. temperature: 0 is greedy. top_k: only the k likeliest tokens, 0
    for all. top_p: only the likeliest tokens that together reach this probability. seed: the noise; the
    same seed gives the same text in plain and staged mode. stop_ids: token ids that end the text; the one
    that did is not emitted. mode: ``plain`` asks the oracle for one token at a time; ``staged`` lets the
    stages below it guess; ``standard`` is speculative decoding as published: a chain of ``gamma`` tokens
    (None: as many as pay) sampled from ``approximation``, with ``lenience`` 1 for the oracle's law.
    guessers, shape: what staged mode is compared with itself by: the draft with draft2 below it, or one of
    them alone; a tree of guesses, or only its best chain.

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
    gamma: int | None = 5
    lenience: float = 1.0
    guessers: Guessers = "all"
    shape: Shape = "tree"

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
        if self.gamma is not None and self.gamma < 1:
            raise DraftlineError(f"gamma is {self.gamma}; it must be 1 or more.")
        if self.guessers not in GUESSERS:
            raise DraftlineError(f"There are no guessers {self.guessers!r}; choose {', '.join(GUESSERS)}.")
        if self.shape not in SHAPES:
            raise DraftlineError(f"There is no shape {self.shape!r}; choose {' or '.join(SHAPES)}.")
        if not 0 < self.lenience <= 1:
            raise DraftlineError(f"lenience is {self.lenience}; it must be above 0 and at most 1.")


class CancelToken:
    """Set from any thread; the loop looks at it between forward passes.

    ahead: nobody waits for the result yet, so where several share an engine the others' requests go first,
    and may set this token.
    """

    def __init__(self, ahead: bool = False) -> None:
        self._event = threading.Event()
        self.ahead = ahead

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()


class Cancelled(Exception):
    """Raised in the middle of a forward pass whose request was cancelled."""


@dataclass(frozen=True)
class Spent:
    """What a stage has used. passes: forward passes, or for draft2 rounds of guessing. rows: of these
    passes, or guesses. bytes: read by the passes, weights and cache. operations: multiplications and
    additions of the passes. draft2's own few cache lines a guess are not counted. seconds: wall clock."""

    passes: int = 0
    rows: int = 0
    bytes: int = 0
    operations: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.passes + other.passes,
            self.rows + other.rows,
            self.bytes + other.bytes,
            self.operations + other.operations,
            self.seconds + other.seconds,
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            self.passes - other.passes,
            self.rows - other.rows,
            self.bytes - other.bytes,
            self.operations - other.operations,
            self.seconds - other.seconds,
        )


@dataclass(frozen=True)
class Cycle:
    """What one cycle emitted, and what it took.

    tokens: new token ids, in order. origins: for each, the stage that first proposed it
    (``oracle`` if none did). rows: rows of the oracle's forward pass. seconds: the cycle's duration.
    tried: for each token, the stages whose guesses for it were checked. expected: how many tokens the
    guesses' chances promised. spent: by stage, what it used.
    """

    tokens: list[int]
    origins: list[Origin]
    rows: int
    seconds: float
    tried: list[frozenset[Origin]] = field(default_factory=list)
    expected: float = 1.0
    spent: dict[Origin, Spent] = field(default_factory=dict)
