"""A host that waits without a model, so that the next one to be wanted is there some seconds sooner.

Python and PyTorch take as long to start as a small model to load. The host that had the model cannot wait
itself: only its end gives all memory back, so this is a new process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from engine.errors import DraftlineError
from engine.host import wire
from engine.host.line import Gone, Line
from engine.host.place import Place
from engine.host.start import reach

logger = logging.getLogger(__name__)


class Spare:
    """Keeps a host there, started if there is none, for as long as it leaves only because it is idle."""

    def __init__(self, place: Place, command: Sequence[str]) -> None:
        """See `start.reach` for ``command``."""
        self._place = place
        self._command = command
        self._line: Line | None = None
        self._lock = threading.Lock()  # of the line and whether there may be one
        self._closed = False
        threading.Thread(target=self._keep, name="spare", daemon=True).start()

    def close(self) -> None:
        """Need it no more: it leaves after a while if nobody else does. From any thread."""
        with self._lock:
            self._closed = True
            if self._line:
                self._line.hang_up()

    def _keep(self) -> None:
        reason: wire.Reason | None = "idle"
        while reason == "idle" and not self._closed:
            try:
                line = reach(self._place, self._command)
            except DraftlineError as error:  # told when a model is wanted, if it still is so then
                logger.warning("%s", error)
                return
            with self._lock:
                self._line = line
                if self._closed:
                    line.hang_up()
            reason = _why_it_left(line)


def _why_it_left(line: Line) -> wire.Reason | None:
    """Wait until it has; None: it did not say, or we hung up."""
    reason = None
    try:
        while True:
            if isinstance(message := wire.for_client(line.receive()), wire.Leaving):
                reason = message.reason
    except (Gone, wire.Malformed):
        line.close()
    return reason
