"""Whose turn it is on the one engine thread.

What somebody waits for goes before what is done ahead of need, and of each the newest first: that is the
window being typed in. A request also ends what is being done ahead for another window, at the next forward
pass; never what somebody there waits for. Each job has its own token, so cancelling one touches no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.request import CancelToken


@dataclass(eq=False)
class Job:
    """client: who asked. request: its number there, None for anything but a generation."""

    client: object
    request: int | None
    run: Callable[[CancelToken], None]
    cancel: CancelToken = field(default_factory=CancelToken)


class Schedule:
    """Filled by the clients' threads, emptied by the engine's."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._running: Job | None = None

    def add(self, job: Job) -> None:
        with self._changed:
            running = self._running
            if running and running.cancel.ahead and not job.cancel.ahead and running.client is not job.client:
                running.cancel.cancel()
            self._waiting.append(job)
            self._changed.notify()

    def wake(self) -> None:
        """Let ``next`` return now."""
        with self._changed:
            self._changed.notify()

    def jobs_of(self, client: object) -> int:
        """How many jobs of a client have not ended."""
        with self._changed:
            return len(self._of(client))

    def cancel(self, client: object, request: int | None = None) -> list[Job]:
        """End one request of a client at its next forward pass, or everything that it has asked for.

        Gives those that had not begun. They never come, or a client that asks and cancels while something
        long is under way would have ever more of them waiting.
        """
        with self._changed:
            meant = [job for job in self._of(client) if request is None or job.request == request]
            for job in meant:
                job.cancel.cancel()
            self._waiting = [job for job in self._waiting if job not in meant]
            return [job for job in meant if job is not self._running]

    def next(self, seconds: float) -> Job | None:
        """The next job, once the one before has ended; None if there is none within so many seconds."""
        with self._changed:
            self._running = None
            if not self._waiting:
                self._changed.wait(seconds)
            if self._waiting:
                self._running = min(reversed(self._waiting), key=lambda job: job.cancel.ahead)
                self._waiting.remove(self._running)
            return self._running

    def _of(self, client: object) -> list[Job]:
        running = [] if self._running is None else [self._running]
        return [job for job in [*running, *self._waiting] if job.client is client]
