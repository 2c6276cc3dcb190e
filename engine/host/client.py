"""A client as the host sees it."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading

from engine.host import wire
from engine.host.line import Gone, Line
from engine.host.shelf import Shelved

_MOST_UNREAD = 4096  # packets that a client has not taken, after which it is given up
_FAREWELL = 0.5  # seconds for a client to take its last packets

logger = logging.getLogger(__name__)


class Client:
    """One connection. What is said to it is sent by a thread of its own, so none can hold up the engine."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.asked: wire.Open | None = None
        self.model: Shelved | None = None
        self.in_cache = False
        """Whether the model's cache holds what this client asked last."""
        self._unsent: queue.Queue[bytes | None] = queue.Queue(_MOST_UNREAD)
        self._sender = threading.Thread(target=self._send, name="sender", daemon=True)
        self._sender.start()

    def say(self, message: wire.ToClient) -> None:
        try:
            self._unsent.put_nowait(wire.pack(message))
        except queue.Full:
            logger.warning("a client that reads nothing was given up")
            self.line.hang_up()

    def end(self) -> None:
        """Once it has taken what was said so far, or does not. May be called again."""
        with contextlib.suppress(queue.Full):
            self._unsent.put_nowait(None)
        self._sender.join(_FAREWELL)
        self.line.hang_up()

    def _send(self) -> None:
        with contextlib.suppress(Gone):
            while (packet := self._unsent.get()) is not None:
                self.line.send(packet)
