"""Serve one client on standard input and output, and leave cleanly however the session ends."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, NoReturn

from lsp_server.framing import read_message
from lsp_server.server import DraftlineServer

logger = logging.getLogger(__name__)

_WRITE_SECONDS = 0.5
_LEAVE_SECONDS = 1.0


class Outbox:
    """Writes on a thread of its own: a client that does not read must not keep us from hearing it."""

    def __init__(self, out: BinaryIO, on_broken: Callable[[], object]) -> None:
        """``on_broken`` is called on that thread if there is nobody to write to any more."""
        self._out = out
        self._on_broken = on_broken
        self._messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)
        self._thread.start()

    def write(self, message: bytes) -> None:
        self._messages.put(message)

    def close(self) -> None:
        """Write what came before, and wait for that, but not for a client that does not read."""
        self._messages.put(None)
        self._thread.join(_WRITE_SECONDS)

    def _run(self) -> None:
        try:
            while (message := self._messages.get()) is not None:
                self._out.write(message)
                self._out.flush()
        except OSError:
            self._on_broken()


def serve(server: DraftlineServer) -> NoReturn:
    """Answer until the client says ``exit`` or closes our input or output, then end the process.

    The exit code is 0 after a ``shutdown`` request, else 1, as the protocol asks; 130 after Ctrl-C.
    """
    # Whatever a library prints goes to stderr: on stdout it would be taken for a message.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    outbox = Outbox(out, on_broken=lambda: _leave(server))
    server.protocol.set_writer(outbox)
    interrupted = False
    try:
        asyncio.run(_session(server, sys.stdin.buffer))
    except KeyboardInterrupt:
        interrupted = True
    except SystemExit:
        pass  # the `exit` notification
    outbox.close()
    _leave(server, interrupted)


async def _session(server: DraftlineServer, stream: BinaryIO) -> None:
    loop = asyncio.get_running_loop()
    reader = ThreadPoolExecutor(max_workers=1)
    while (body := await loop.run_in_executor(reader, read_message, stream)) is not None:
        try:
            server.protocol.handle_body(body)
        except Exception as error:
            server.report_server_error(error, "a message")


def _leave(server: DraftlineServer, interrupted: bool = False) -> NoReturn:
    server.engine.stop(_LEAVE_SECONDS)
    logger.info("leaving")
    logging.shutdown()
    # The model may still be loading, and a read of stdin still be waiting: neither can be interrupted.
    os._exit(130 if interrupted else 0 if server.shutting_down else 1)
