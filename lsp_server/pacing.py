"""When a request may go to the model, and when its time is up.

While characters come quickly one after the other, each request would only be superseded by the next, so
one that waits for a short pause costs the user nothing. A model that answers within such a pause anyway
is asked at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.request import CancelToken

PAUSE = 0.075  # seconds: shorter than between most keystrokes, longer than between those of a key held down
QUICK = 0.1  # seconds for a suggestion that are too few to wait
_UNASKED = 20  # changes without a request, after which a client is taken not to want suggestions there


@dataclass
class Deadline:
    """at: a time of ``time.monotonic``. It may be moved while the work goes on."""

    at: float


def seconds_left(request: CancelToken) -> float:
    """Until ``request`` ends by itself."""
    return request.left if isinstance(request, Limited) else math.inf


class Limited(CancelToken):
    """Cancelled when ``request`` is, and after ``end``."""

    def __init__(self, request: CancelToken, end: Deadline) -> None:
        super().__init__(request.ahead)
        self._request = request
        self._end = end

    @property
    def left(self) -> float:
        """Seconds until its end."""
        return self._end.at - time.monotonic()

    @property
    def cancelled(self) -> bool:
        return super().cancelled or self._request.cancelled or time.monotonic() >= self._end.at


@dataclass
class _Typing:
    """turn: new with each request or change. gap: seconds between the last two changes, of which there have
    been ``unasked`` since a request."""

    turn: object = field(default_factory=object)
    changed: float = -math.inf
    gap: float = math.inf
    unasked: int = _UNASKED


class Pace:
    """How each document is being typed in, and how quick the model is."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._documents: dict[str, _Typing] = {}
        self._usual = math.inf

    def requested(self, uri: str) -> object:
        """A request has come; gives its turn, which lasts until the next request or change."""
        typing = self._documents.setdefault(uri, _Typing())
        typing.turn = object()
        typing.unasked = 0
        return typing.turn

    def changed(self, uri: str) -> object:
        """The text has changed; gives the turn that begins with it."""
        typing = self._documents.setdefault(uri, _Typing())
        now = self._clock()
        typing.turn = object()
        typing.gap = now - typing.changed
        typing.changed = now
        typing.unasked += 1
        return typing.turn

    def rest(self, uri: str) -> float:
        """Seconds since the last change."""
        typing = self._documents.get(uri)
        return math.inf if typing is None else self._clock() - typing.changed

    def closed(self, uri: str) -> None:
        self._documents.pop(uri, None)

    def is_turn(self, uri: str, turn: object) -> bool:
        return uri in self._documents and self._documents[uri].turn is turn

    def in_burst(self, uri: str) -> bool:
        """Whether the last two changes came so quickly that a third is to be expected."""
        return self._documents[uri].gap < PAUSE

    def is_asked(self, uri: str) -> bool:
        """Whether suggestions are wanted in this document at all, as far as can be told."""
        return self._documents[uri].unasked <= _UNASKED

    def wait(self, uri: str, idle: bool, chosen: float | None = None) -> float:
        """How many seconds a request should wait. idle: the model has nothing else to do.

        chosen: the seconds since the last change that the user wants to pass, if that is not left to us.
        """
        typing = self._documents[uri]
        if chosen is not None:
            return max(0.0, typing.changed + chosen - self._clock())
        if idle and self._usual < QUICK and not self.in_burst(uri):
            return 0.0
        return max(0.0, typing.changed + PAUSE - self._clock())

    def took(self, seconds: float) -> None:
        """A suggestion took so long."""
        self._usual = seconds if math.isinf(self._usual) else 0.7 * self._usual + 0.3 * seconds
