"""From keystroke to suggestion: what happens to a request, in this order.

1. It leaves at once for documents that are none of our business, and while there is no model.
2. The cache: the suggestion may be known already, or the one whose beginning the user has since typed.
3. It waits for a pause in quick typing or until its prompt has been read, whichever comes first, and ends
   there if a later request or change comes.
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

from engine.request import SamplingParams
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
    """What is computed ahead for a text that is not there yet, but for the user's accepting a suggestion."""

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
        self._tasks: set[asyncio.Future[object]] = set()
        self._ahead: _Ahead | None = None  # the latest look ahead
        self._reading: tuple[str, Job[Completer, None]] | None = None  # the latest, and for which document

    async def suggest(self, asked: Asked) -> list[Suggestion]:
        """What to show, the best first; nothing if there is nothing, or nobody waits for it any more."""
        end = time.monotonic() + self._seconds(asked.invoked)
        self._engine.cancel(asked.uri)
        turn = self._pace.requested(asked.uri)
        if not self._ready(asked.uri, asked.invoked):
            return []
        known = known_at(self._cache, asked) or await self._computed_ahead(asked, end)
        if not self._pace.is_turn(asked.uri, turn):
            return []
        if known is None or (asked.several and not known.several):
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
        reading = None if self._pace.in_burst(asked.uri) else self._read_ahead(asked, end)
        try:
            if reading and chosen is None:
                await asyncio.wait([reading], timeout=seconds)
            else:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if self._pace.is_turn(asked.uri, turn):  # else it is cancelled because the user types on
                self._engine.cancel_ahead()
            raise
        return self._pace.is_turn(asked.uri, turn) and self._ready(asked.uri, asked.invoked)

    async def _computed(self, asked: Asked, known: Known | None, end: float) -> Known | None:
        """Steps 4 to 7; with ``known``, only what else there is."""
        started = time.monotonic()
        first = known.suggestions[0] if known and not known.suggestions[0].cut else None
        usual, limit = self.usual, Deadline(end)
        job = self._engine.submit(
            asked.uri,
            lambda completer, cancel: written(completer, asked, first, Limited(cancel, limit), usual),
        )
        found = await self._outcome(job)
        if found:
            one, seconds = found.suggestions[0], time.monotonic() - started
            logger.info(
                "%d tokens, %d cycles, %.3f s, %.3f s in all",
                *(len(one.tokens), one.cycles, one.seconds, seconds),
            )
            if not (asked.invoked or one.cut):
                self._pace.took(seconds)
        return found

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
        if known and not known.suggestions[0].cut:
            return

        usual, end = self.usual, Deadline(time.monotonic() + _AHEAD_SECONDS)
        job = self._engine.submit_ahead(
            lambda completer, cancel: written(completer, ahead, None, Limited(cancel, end), usual)
        )
        window = window_of(ahead.lines, ahead.cursor)
        self._ahead = _Ahead(ahead.uri, window, end, self.start(self._kept(ahead, job)))

    async def _computed_ahead(self, asked: Asked, end: float) -> Known | None:
        """What is being computed ahead for this very text, once it is ready; None if nothing is."""
        if not (self._ahead and self._ahead.is_for(asked)):
            return None
        self._ahead.end.at = min(self._ahead.end.at, end)
        try:
            await self._at_work(asyncio.wait([self._ahead.task]))
        except asyncio.CancelledError:
            self._engine.cancel_ahead()
            raise
        return known_at(self._cache, asked)

    async def _kept(self, asked: Asked, job: Job[Completer, Known]) -> None:
        settings = self._settings
        if known := await self._outcome(job):
            self._keep(asked, known, settings)

    def _keep(self, asked: Asked, known: Known, settings: Settings) -> None:
        """Remember what was computed by these settings, if they still hold."""
        if settings == self._settings and not known.nothing_yet:
            self._cache.put(asked.uri, window_of(asked.lines, asked.cursor), known)

    def _read_ahead(self, asked: Asked, end: float) -> asyncio.Future[object] | None:
        """Let the engine read the prompt of a request that is likely, so that its answer comes by ``end``.

        Gives the reading; None where that is of no use.
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

    def _submit_reading(self, asked: Asked, end: float) -> Job[Completer, None]:
        limit = Deadline(end)
        job: Job[Completer, None] = self._engine.submit_ahead(
            lambda completer, cancel: completer.read_ahead(
                asked.lines, asked.cursor, Limited(cancel, limit), asked.around
            )
        )
        self._reading = asked.uri, job
        return job

    def _is_read(self, uri: str) -> bool:
        """Whether a prompt for this document is being read."""
        return self._reading is not None and self._reading[0] == uri and not self._reading[1].ended

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Future[object]:
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
