"""Serve one client on standard input and output, and leave cleanly however the session ends."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

from pygls.io_ import StdinAsyncReader, StdoutWriter, run_async

from lsp_server.server import DraftlineServer

logger = logging.getLogger(__name__)

_LEAVE_SECONDS = 1.0


def serve(server: DraftlineServer) -> NoReturn:
    """Answer until the client says ``exit`` or closes our input, then end the process.

    The exit code is 0 after a ``shutdown`` request, else 1, as the protocol asks; 130 after Ctrl-C.
    """
    # Whatever a library prints goes to stderr: on stdout it would be taken for a message.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    server.protocol.set_writer(StdoutWriter(out))
    reader = StdinAsyncReader(sys.stdin.buffer, ThreadPoolExecutor(max_workers=1))
    interrupted = False
    try:
        asyncio.run(
            run_async(
                stop_event=threading.Event(),
                reader=reader,
                protocol=server.protocol,
                logger=logging.getLogger("pygls"),
                error_handler=server.report_server_error,
            )
        )
    except KeyboardInterrupt:
        interrupted = True
    except SystemExit:
        pass  # the `exit` notification
    except BrokenPipeError:
        logger.info("the client is gone")
    server.engine.stop(_LEAVE_SECONDS)
    logger.info("leaving")
    logging.shutdown()
    # The model may still be loading, and a read of stdin still be waiting: neither can be interrupted.
    os._exit(130 if interrupted else 0 if server.shutting_down else 1)
