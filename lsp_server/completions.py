"""From keystroke to suggestion: what happens to a request, in this order.

1. It leaves at once for documents that are none of our business, and while there is no model.
2. The cache: the suggestion may be known already, or the one whose beginning the user has since typed.
3. It waits for a pause in quick typing, and ends there if a later request or change comes. Meanwhile steps 4
   to 7 are begun, as work that stops for anything else.
4. On the engine's thread (see ``completer``) a prompt is written from the text round the cursor and from
   other files,
5. in the form that the model's family was trained on;
6. the model writes, up to where the suggestion ends or the time is up;
7. and what the text already has is trimmed off.
8. Once answered, what would follow if it were accepted is computed ahead; whoever accepts it meanwhile
   waits for that. A prompt that was shortened, for lack of time to read it, is read whole.

The newest request of a document supersedes the older ones, and a change supersedes all. Each gets an answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from engine.request import CancelToken, SamplingParams
from lsp_server.asked import Asked, written, written_once
from lsp_server.cache import Cache, Known, Window, window_of
from lsp_server.completer import Completer
from lsp_server.engine_thread import EngineThread, Job
from lsp_server.exclusions import left_alone
from lsp_server.known import known_at
from lsp_server.pacing import PAUSE, Deadline, Limited, Pace
from lsp_server.settings import Settings
from lsp_server.suggestion import Suggestion

INVOKED = 2  # times as long as for a request that typing has caused, one may take that the user made
_AHEAD_SECONDS = 4.0  # for what nobody waits for yet
_LAST_PASS = 0.05  # seconds that the pass takes in which the time is up, and the answer's way to the user
_SENT = 0.003  # seconds in which an answer is on its way, if nothing takes the interpreter's lock from it
_REST = 0.5  # seconds from a change, in which an editor asks of its own accord

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass
class _Ahead:
    """What is computed before it is waited for: for the text that accepting a suggestion would give, or for a
    request that waits for a pause in typing."""

    uri: str
    window: Window
    end: Deadline
    task: asyncio.Future[object]

    def is_for(self, asked: Asked) -> bool:
        """Whether it is for this text, and not ready yet."""
        return (
            not self.task.done()
            and self.uri == asked.uri
            and self.window == window_of(asked.lines, asked.cursor)
        )


def _not_secret(uri: str, invoked: bool) -> bool:
    return not left_alone(uri)


class Completions:
    """Suggestions from one engine. Every method runs on the event loop's thread."""

    def __init__(
        self,
        engine: EngineThread[Completer],
        on_failure: Callable[[Exception], None],
        wanted: Callable[[str, bool], bool] = _not_secret,
        on_working: Callable[[], None] = lambda: None,
    ) -> None:
        """``on_failure`` is told when a suggestion could not be computed; the answer is empty then.

        wanted: whether there may be suggestions for the document of a URI; the second argument is whether
        the user asked for one. on_working: called when ``working`` may have changed.
        """
        self.last: dict[str, Suggestion] = {}
        self._wanted = wanted
        self._on_working = on_working
        self._waiting = 0  # requests that the model is at work for
        self._settings = Settings()
        self._engine = engine
        self._on_failure = on_failure
        self._cache = Cache()
        self._pace = Pace()
        self._tasks: set[asyncio.Future[Any]] = set()
        self._ahead: _Ahead | None = None  # the latest
        self._reading: tuple[str, Job[Completer, bool]] | None = None  # the latest, and for which document

    async def suggest(self, asked: Asked) -> list[Suggestion]:
        """What to show, the best first; nothing if there is nothing, or nobody waits for it any more."""
        end = time.monotonic() + self._seconds(asked.invoked)
        self._engine.cancel(asked.uri)
        turn = self._pace.requested(asked.uri)
        if not self._ready(asked.uri, asked.invoked):
            return []
        known = await self._known(asked, end)
        if not self._pace.is_turn(asked.uri, turn):
            return []
        if not asked.is_met_by(known):
            if not await self._may_go_on(asked, turn, end):
                return []
            settings = self._settings
            known = await self._at_work(self._computed(asked, known, end))
            waits = self._pace.is_turn(asked.uri, turn) and self._ready(asked.uri, asked.invoked)
            if known and known.nothing_yet and waits:
                # some editors never ask again for the same place, so whoever still waits waits on
                end = time.monotonic() + self._seconds(invoked=True)
                known = await self._at_work(self._computed(asked, None, end))
            if known is None or not self._pace.is_turn(asked.uri, turn):
                return []
            self._keep(asked, known, settings)
        self.last[asked.uri] = known.suggestions[0]
        self.start(self._go_on(asked, turn, known.suggestions[0]))
        return [one for one in known.suggestions if one.text]

    async def write(self, asked: Asked, wanted: SamplingParams) -> Suggestion | None:
        """A suggestion made now, decoded as ``wanted`` and however long that takes; None if outdated."""
        self._pace.requested(asked.uri)
        if not self._ready(asked.uri, invoked=True):
            return None
        job = self._engine.submit(
            asked.uri, lambda completer, cancel: written_once(completer, asked, cancel, wanted)
        )
        outcome = self._outcome(job)
        suggestion = await self._at_work(outcome)
        if suggestion:
            self.last[asked.uri] = suggestion
        return suggestion

    def changed(self, uri: str, ask: Callable[[], Asked] | None) -> None:
        """A document has changed: nothing that was asked about it matters any more.

        ask: gives the request that is to be expected, if the user pauses here. Its prompt is read then. None:
        nobody can tell where it will be. What is computed ahead for just this text goes on, and so does the
        reading of a prompt, of which typing changes little but the end.
        """
        self._engine.cancel(uri)
        if not (ask and (self._is_read(uri) or (self._ahead and self._ahead.is_for(ask())))):
            self._engine.cancel_ahead()
        turn = self._pace.changed(uri)

        def pause(ask: Callable[[], Asked]) -> None:
            if self._pace.is_turn(uri, turn) and self._ready(uri):
                self._read_ahead(ask(), time.monotonic() + self._seconds(invoked=False))

        if ask is not None and self._pace.is_asked(uri) and self._ready(uri):
            asyncio.get_running_loop().call_later(PAUSE, pause, ask)

    def closed(self, uri: str) -> None:
        self._engine.cancel(uri)
        self._engine.cancel_ahead()
        self._pace.closed(uri)
        self.last.pop(uri, None)

    def rested(self, uri: str) -> bool:
        """Whether the document has not changed for so long that a request is the user's own."""
        return self._pace.rest(uri) >= _REST

    @property
    def working(self) -> bool:
        """Whether the model is at work for a request."""
        return self._waiting > 0

    async def _at_work(self, work: Awaitable[T]) -> T:
        self._waiting += 1
        self._on_working()
        try:
            return await work
        finally:
            self._waiting -= 1
            self._on_working()

    def use(self, settings: Settings) -> None:
        """Go by these from now on. What was computed by others is forgotten."""
        self._settings = settings
        self._cache = Cache()

    @property
    def usual(self) -> SamplingParams:
        """How a suggestion is decoded."""
        chosen = self._settings
        return SamplingParams(chosen.max_tokens, chosen.temperature, seed=chosen.seed)

    def _seconds(self, invoked: bool) -> float:
        """From a request's arrival to the last pass for it, without the pause that the user has chosen."""
        chosen = self._settings
        limit = chosen.time_limit / 1000 - _LAST_PASS
        return limit * INVOKED if invoked else limit + (chosen.debounce or 0) / 1000

    def _ready(self, uri: str, invoked: bool = False) -> bool:
        return self._engine.state == "ready" and self._wanted(uri, invoked)

    async def _may_go_on(self, asked: Asked, turn: object, end: float) -> bool:
        pause = self._settings.debounce
        chosen = None if pause is None else pause / 1000
        seconds = 0.0 if asked.invoked else self._pace.wait(asked.uri, self._engine.idle, chosen)
        if not seconds:
            return True
        try:
            if self._pace.in_burst(asked.uri):
                await asyncio.sleep(seconds)
            else:
                await self._begun_ahead(asked, turn, seconds, end, write=chosen is None)
                await self._known(asked, end)
        except asyncio.CancelledError:
            if self._pace.is_turn(asked.uri, turn):  # else it is cancelled because the user types on
                self._engine.cancel_ahead()
            raise
        return self._pace.is_turn(asked.uri, turn) and self._ready(asked.uri, asked.invoked)

    async def _begun_ahead(self, asked: Asked, turn: object, seconds: float, end: float, write: bool) -> None:
        """For so many seconds, let the engine read the prompt, and begin to ``write`` the answer once that is
        read. What is written ends with the next change; reading does not, for typing changes little of it."""
        over = time.monotonic() + seconds
        reading = self._read_ahead(asked, end)
        if reading:
            await asyncio.wait([reading], timeout=seconds)
            read = reading.done() and reading.result()
            if write and read and self._pace.is_turn(asked.uri, turn) and self._ready(asked.uri):
                self._compute_ahead(asked, end)
        await asyncio.sleep(over - time.monotonic())

    async def _computed(self, asked: Asked, known: Known | None, end: float) -> Known | None:
        """Steps 4 to 7, unless they were begun ahead; with ``known``, only what else there is."""
        if asked.is_met_by(begun := known_at(self._cache, asked)):
            return begun
        started = time.monotonic()
        first = known.suggestions[0] if known and not known.suggestions[0].cut else None
        usual, limit = self.usual, Deadline(end)
        job = self._engine.submit(
            asked.uri,
            lambda completer, cancel: written(completer, asked, first, Limited(cancel, limit), usual),
        )
        found = await self._outcome(job)
        if found:
            self._note(asked, found.suggestions[0], time.monotonic() - started)
        return found

    def _note(self, asked: Asked, one: Suggestion, seconds: float) -> None:
        """How long the model took for a suggestion."""
        logger.info(
            "%d tokens, %d cycles, %.3f s, %.3f s in all",
            *(len(one.tokens), one.cycles, one.seconds, seconds),
        )
        if not (asked.invoked or one.cut):
            self._pace.took(seconds)

    async def _go_on(self, asked: Asked, turn: object, answer: Suggestion) -> None:
        """Once the answer has been sent, go on with what is likely to be asked for next."""
        await asyncio.sleep(_SENT)
        if self._pace.is_turn(asked.uri, turn):
            self._look_ahead(asked, answer)
            if answer.short:
                await self._read_whole(asked, turn)

    def _look_ahead(self, asked: Asked, answer: Suggestion) -> None:
        """Step 8. Where not even the answer's beginning was ready in time, that itself is computed."""
        if not (answer.text or answer.cut) or not self._ready(asked.uri):
            return
        ahead = asked.accepting(answer.text)
        known = known_at(self._cache, ahead)
        if not known or known.suggestions[0].cut:
            self._compute_ahead(ahead, time.monotonic() + _AHEAD_SECONDS)

    def _compute_ahead(self, asked: Asked, end: float) -> None:
        usual, limit = self.usual, Deadline(end)
        job = self._engine.submit_ahead(
            lambda completer, cancel: written(completer, asked, None, Limited(cancel, limit), usual)
        )
        window = window_of(asked.lines, asked.cursor)
        self._ahead = _Ahead(asked.uri, window, limit, self.start(self._kept(asked, job)))

    async def _known(self, asked: Asked, end: float) -> Known | None:
        """What is known for a request, or will be once it is ready that is being computed ahead."""
        known = known_at(self._cache, asked)
        if known or not (self._ahead and self._ahead.is_for(asked)):
            return known
        self._ahead.end.at = min(self._ahead.end.at, end)
        try:
            await self._at_work(asyncio.wait([self._ahead.task]))
        except asyncio.CancelledError:
            self._engine.cancel_ahead()
            raise
        return known_at(self._cache, asked)

    async def _kept(self, asked: Asked, job: Job[Completer, Known]) -> None:
        settings, started = self._settings, time.monotonic()
        if known := await self._outcome(job):
            self._note(asked, known.suggestions[0], time.monotonic() - started)
            self._keep(asked, known, settings)

    def _keep(self, asked: Asked, known: Known, settings: Settings) -> None:
        """Remember what was computed by these settings, if they still hold."""
        if settings == self._settings and not known.nothing_yet:
            self._cache.put(asked.uri, window_of(asked.lines, asked.cursor), known)

    def _read_ahead(self, asked: Asked, end: float) -> asyncio.Future[bool | None] | None:
        """Let the engine read the prompt of a likely request, so that its answer comes by ``end``.

        Gives what will be true once it is read; None where that is of no use.
        """
        if known_at(self._cache, asked) or (self._ahead and self._ahead.is_for(asked)):
            return None
        reading = self._outcome(self._submit_reading(asked, end))
        return self.start(reading)

    async def _read_whole(self, asked: Asked, turn: object) -> None:
        """Let the engine read all of a prompt that was shortened, once nothing else is computed ahead."""
        if self._ahead:
            await asyncio.wait([self._ahead.task])
        if self._pace.is_turn(asked.uri, turn) and self._ready(asked.uri):
            await self._outcome(self._submit_reading(asked, math.inf))

    def _submit_reading(self, asked: Asked, end: float) -> Job[Completer, bool]:
        limit = Deadline(end)

        def read(completer: Completer, cancel: CancelToken) -> bool:
            completer.read_ahead(asked.lines, asked.cursor, Limited(cancel, limit), asked.around)
            return True

        job = self._engine.submit_ahead(read)
        self._reading = asked.uri, job
        return job

    def _is_read(self, uri: str) -> bool:
        """Whether a prompt for this document is being read."""
        return self._reading is not None and self._reading[0] == uri and not self._reading[1].ended

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # the loop itself would not keep it alive
        task.add_done_callback(self._tasks.discard)
        return task

    async def _outcome(self, job: Job[Completer, T]) -> T | None:
        try:
            outcome = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel.cancel()
            raise
        except Exception as error:
            self._on_failure(error)
            return None
        return None if job.cancel.cancelled else outcome
