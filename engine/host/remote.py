"""An engine in the host, used as one in this process; only its tokenizer is loaded here.

A cancelled request is given up here at once, and the host told; what it still sends is not looked at.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import DraftlineError, OutOfMemory
from engine.host import wire
from engine.host.line import Gone, Line
from engine.host.place import Place
from engine.host.spare import Spare
from engine.host.start import Unreachable, reach
from engine.kept import State, state_of
from engine.process_memory import give_back
from engine.request import CancelToken, Cycle, SamplingParams
from engine.tokenizer import Tokenizer

Reason = wire.Reason | Literal["lost"]
_QUIET = 3.0  # seconds without a word from the host, after which it is asked how it is
_DEAD = 10.0  # and after which it hangs
_LOOK = 0.004  # seconds between looks at a request's token; a forward pass takes ten times that
_ATTEMPTS = 4  # to open a model: a host may be leaving, or die of it

logger = logging.getLogger(__name__)


class Left(Exception):
    """The host has left, or unloaded the model; whoever wants more of it opens it anew. ``reason`` is as in
    `wire.Leaving`, or ``lost``: it has died."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Guesses:
    """What a request's guesses come from: see `Engine.guess_with`."""

    draft: Path | None = None
    tables: tuple[Path, ...] = ()


def open_engine(
    place: Place, command: Sequence[str], asked: wire.Open, on_progress: Callable[[float], None] | None = None
) -> RemoteEngine:
    """An engine in the host, which is started if there is none; see `start.reach` for ``command``.

    Raises:
        Unreachable: there is no host, and none can be had just now.
        OutOfMemory: the model has no room.
        DraftlineError: it cannot be loaded.
    """
    for _ in range(_ATTEMPTS):
        line = reach(place, command)
        try:
            opened = _opened(line, asked, on_progress or (lambda fraction: None))
            return RemoteEngine(line, opened, functools.partial(Spare, place, command))
        except Left as left:
            logger.warning("the host left while it was asked for a model: %s", left.reason)
            line.close()
            if left.reason == "full":
                raise Unreachable("Too many editor windows use Draftline's engine; close some.") from left
        except BaseException:
            line.close()
            raise
    raise Unreachable(
        f"Draftline's engine ends whenever it is asked for {asked.oracle}; its log file tells more."
    )


def _opened(line: Line, asked: wire.Open, on_progress: Callable[[float], None]) -> wire.Opened:
    try:
        line.send(wire.pack(asked))
        while not isinstance(message := wire.for_client(line.receive()), wire.Opened):
            if isinstance(message, wire.Loading):
                on_progress(message.fraction)
            elif isinstance(message, wire.Refused):
                raise (OutOfMemory if message.memory else DraftlineError)(message.message)
            elif isinstance(message, wire.Leaving):
                raise Left(message.reason)
        return message
    except (Gone, wire.Malformed) as error:
        raise Left("lost") from error


@functools.lru_cache(maxsize=1)
def _tokenizer(path: Path, state: State) -> Tokenizer:
    """Kept, while the file is in this ``state``, for when the model is loaded again: reading it takes 0.5 s.

    Raises:
        DraftlineError: it cannot be read.
    """
    tokenizer = Tokenizer(path)
    give_back()  # reading it takes twice what it needs
    return tokenizer


class RemoteEngine:
    """An `engine.face.EngineFace`. Use ``generate`` from one thread at a time."""

    def __init__(self, line: Line, opened: wire.Opened, spare: Callable[[], Spare]) -> None:
        """line: on which the host has said ``opened``. spare: has another wait once this one has left.

        Raises:
            DraftlineError: the tokenizer cannot be read.
        """
        self.name = opened.name
        self.eos_ids = tuple(opened.eos_ids)
        self.max_context = opened.max_context
        self.device = opened.device
        self.weights = opened.weights
        self.notice = opened.notice
        self.load_seconds = opened.load_seconds
        self.reading_seconds = opened.reading_seconds
        self.fingerprint = opened.fingerprint
        self.spare = spare
        self.displaced = 0
        self.guesses: Callable[[], Guesses] = Guesses
        """Asked before each request, so that what was made meanwhile is used."""
        self.tokenizer = _tokenizer(Path(opened.tokenizer), state_of(Path(opened.tokenizer)))
        self._line = line
        self._numbers = itertools.count()
        self._awaited = -1  # the number of the request under way
        self._inbox: queue.SimpleQueue[wire.ToClient] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._quiet_since: float | None = None  # the time of the first request since it last said something
        self._was_asked = False  # since then, how it is
        self._left: Reason | None = None
        self._when_left: Callable[[Reason], None] | None = None
        threading.Thread(target=self._listen, name="host", daemon=True).start()

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken | None = None,
        context_ids: Sequence[int] | None = None,
        begins_with: str = "",
    ) -> Iterator[Cycle]:
        """See `Engine.generate`. The cycles have no more than tokens, origins, rows and seconds. If the host
        does something else first, in place of what is ``ahead``, ``cancel`` is set.

        Raises:
            Left: the host has left, or unloaded the model.
            OutOfMemory, DraftlineError: as there.
        """
        cancel = cancel or CancelToken()
        number, guesses = next(self._numbers), self.guesses()
        self._inbox, self._awaited = queue.SimpleQueue(), number
        message = wire.Generate(
            request=number,
            prompt=list(prompt_ids),
            context=None if context_ids is None else list(context_ids),
            params=params,
            begins_with=begins_with,
            ahead=cancel.ahead,
            draft=None if guesses.draft is None else str(guesses.draft),
            tables=[str(table) for table in guesses.tables],
        )
        if self._quiet_since is None:
            self._quiet_since, self._was_asked = time.monotonic(), False
        self._send(message)
        under_way = True
        try:
            while (heard := self._next(cancel)) is not None:
                if isinstance(heard, wire.Emitted):
                    yield heard.cycle
                    continue
                under_way = False
                if isinstance(heard, wire.Refused):
                    raise (OutOfMemory if heard.memory else DraftlineError)(heard.message)
                if isinstance(heard, wire.Ended) and not heard.whole:
                    cancel.cancel()
                return
        finally:
            self._awaited = -1
            if under_way:
                with contextlib.suppress(Left):
                    self._send(wire.Cancel(number))

    def when_left(self, call: Callable[[Reason], None]) -> None:
        """Call it once the host has left, on another thread; at once, if it has already."""
        with self._lock:
            self._when_left = call
        if self._left:
            self._tell()

    def close(self) -> None:
        """Give the engine up; nobody is told."""
        with self._lock:
            self._when_left = None
        self._line.hang_up()

    def _next(self, cancel: CancelToken) -> wire.ToClient | None:
        """What the host says next about the request; None if it was cancelled."""
        while not cancel.cancelled:
            try:
                return self._inbox.get(timeout=_LOOK)
            except queue.Empty:
                if self._left:
                    raise Left(self._left) from None
                self._look_after()
        return None

    def _look_after(self) -> None:
        """Give up a host that hangs. One that is busy with other windows still says how it is."""
        since = self._quiet_since  # the other thread may change it now
        quiet = 0.0 if since is None else time.monotonic() - since
        if quiet > _DEAD:
            logger.warning("the host has said nothing for %.0f s", quiet)
            self._line.hang_up()
            raise Left("lost")
        if quiet > _QUIET and not self._was_asked:
            self._was_asked = True
            self._send(wire.Ask())

    def _send(self, message: wire.ToHost) -> None:
        if self._left:
            raise Left(self._left)
        try:
            self._line.send(wire.pack(message))
        except Gone as error:
            self._line.hang_up()  # half a message may be on its way
            raise Left(self._left or "lost") from error

    def _listen(self) -> None:
        reason: Reason = "lost"
        try:
            while True:
                message = wire.for_client(self._line.receive())
                self._quiet_since = None
                if isinstance(message, wire.Leaving):
                    reason = message.reason
                elif isinstance(message, wire.Elsewhere):
                    self.displaced += 1
                elif getattr(message, "request", None) == self._awaited:
                    self._inbox.put(message)
        except wire.Malformed:
            logger.warning("the host said what it may not")
        except Gone:
            pass
        self._line.close()
        with self._lock:
            self._left = reason
        self._tell()

    def _tell(self) -> None:
        with self._lock:
            call, self._when_left = self._when_left, None
        if call and self._left:
            call(self._left)
