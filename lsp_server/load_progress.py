"""Loading the model, with its progress shown where the client can; and loading it anew when it is gone.

When the host leaves because nobody has used the model, we have another wait without one, and the next request
loads it. When it dies, we have it started again at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from lsprotocol import types

from engine.host.remote import Reason, RemoteEngine
from lsp_server.hosted import remote_engine
from lsp_server.status import tell_status

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

AGAIN_SECONDS = 60.0  # after a failure, before a request makes us try once more

logger = logging.getLogger(__name__)


def load(ls: DraftlineServer) -> Coroutine[Any, Any, None]:
    """Begin to load the model, or to load it anew; what is returned shows the progress, until it ends."""
    loop = asyncio.get_running_loop()
    fractions: asyncio.Queue[float | None] = asyncio.Queue()
    ls.percent = 0
    if engine := remote_engine(ls.engine.worker):
        engine.close()

    def progressed(fraction: float) -> None:
        ls.percent = min(100, int(fraction * 100))
        tell_status(ls)
        fractions.put_nowait(fraction)

    def loaded() -> None:
        logger.info("the model is %s %s", ls.engine.state, ls.engine.failure)
        drop_spare(ls)
        if ls.engine.failure:
            ls.tell(ls.engine.failure)
        elif ls.engine.worker and (notice := ls.engine.worker.writer.notice):
            ls.tell(notice, types.MessageType.Warning)
        if engine := remote_engine(ls.engine.worker):
            engine.when_left(lambda reason: _call(loop, _left, ls, engine, reason))
        tell_status(ls)
        fractions.put_nowait(None)

    begin = ls.engine.start if ls.engine.state == "new" else ls.engine.restart
    begin(
        on_progress=lambda fraction: _call(loop, progressed, fraction),
        on_loaded=lambda: _call(loop, loaded),
    )
    return _shown(ls, fractions)


def wake(ls: DraftlineServer) -> None:
    """A suggestion is wanted: bring the model back if it was unloaded, or could not be had some time ago."""
    failed = ls.engine.state == "failed" and not ls.settings.in_process
    if ls.engine.state == "asleep" or (failed and time.monotonic() - ls.engine.began > AGAIN_SECONDS):
        ls.completions.start(load(ls))
        tell_status(ls)


def drop_spare(ls: DraftlineServer) -> None:
    """Its model is there, or is not wanted."""
    if ls.spare:
        ls.spare.close()
        ls.spare = None


def _left(ls: DraftlineServer, engine: RemoteEngine, reason: Reason) -> None:
    if remote_engine(ls.engine.worker) is not engine or ls.engine.state != "ready":
        return  # we have given it up
    logger.info("the host has left: %s", reason)
    if reason == "lost":
        ls.completions.start(load(ls))
    else:
        ls.engine.sleep()
        if reason == "idle" and ls.settings.enabled and ls.spare is None:
            ls.spare = engine.spare()
    tell_status(ls)


async def _shown(ls: DraftlineServer, fractions: asyncio.Queue[float | None]) -> None:
    window = ls.client_capabilities.window
    if not (window and window.work_done_progress):
        return
    token = f"draftline/load/{next(ls.loads)}"
    progress = ls.work_done_progress
    try:
        await progress.create_async(token)
    except Exception:
        return  # the client would rather not
    progress.begin(token, types.WorkDoneProgressBegin(title="Loading the completion model", percentage=0))
    shown = 0
    while (fraction := await fractions.get()) is not None:
        if (percentage := min(100, int(fraction * 100))) > shown:
            shown = percentage
            progress.report(token, types.WorkDoneProgressReport(percentage=shown))
    progress.end(token, types.WorkDoneProgressEnd(message=ls.engine.failure or "ready"))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call it on the loop's thread, unless the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        logger.info("the model was still being loaded when the client left")
