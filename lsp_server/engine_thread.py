"""The one thread that loads the engine and uses it.

Jobs run one after the other. A newer job with the same key supersedes the older: a running one stops at
its next forward pass, a waiting one never starts, and both end without a result. What is done ahead of
need is one job as well, cancelled by whatever else is submitted: so it delays that by one pass at most.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from engine.errors import DraftlineError
from engine.request import CancelToken

T = TypeVar("T")
Worker = TypeVar("Worker")
State = Literal["new", "loading", "ready", "failed", "asleep"]
_AHEAD = None  # the key of what is done ahead

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job(Generic[Worker, T]):
    run: Callable[[Worker, CancelToken], T]
    cancel: CancelToken = field(default_factory=CancelToken)
    future: Future[T | None] = field(default_factory=Future)

    @property
    def ended(self) -> bool:
        """Whether it is done, or will be at its next forward pass."""
        return self.cancel.cancelled or self.future.done()


class EngineThread(Generic[Worker]):
    """Owns what ``load`` returns. Its methods are for one other thread, the server's."""

    def __init__(
        self,
        load: Callable[[Callable[[float], None]], Worker],
        close: Callable[[Worker], object] = lambda worker: None,
    ) -> None:
        """``load`` is called with a function that takes the fraction loaded so far, ``close`` with what it
        gave, once that is given up; both on the engine's thread."""
        self._load = load
        self._close = close
        self._jobs: queue.SimpleQueue[Job[Worker, object] | None] = queue.SimpleQueue()
        self._newest: dict[str | None, Job[Worker, object]] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # for what both threads change when a load begins or ends
        self.state: State = "new"
        self.worker: Worker | None = None
        self.failure = ""
        self.began = 0.0
        """When it was last begun to load, a time of ``time.monotonic``."""

    def start(self, on_progress: Callable[[float], None], on_loaded: Callable[[], None]) -> None:
        """Begin to load. Both functions are called on the engine's thread; the second once, in any event."""
        with self._lock:
            self.state, self.failure, self.began = "loading", "", time.monotonic()
            self._jobs = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run,
            args=(self._jobs, self._thread, on_progress, on_loaded),
            name="engine",
            daemon=True,
        )
        self._thread.start()

    def restart(self, on_progress: Callable[[float], None], on_loaded: Callable[[], None]) -> None:
        """Give up what was loaded, once the jobs submitted so far have ended, and load anew."""
        self._jobs.put(None)
        self.worker = None
        self.start(on_progress, on_loaded)

    def sleep(self) -> None:
        """What was loaded is gone, and not missed until ``restart``."""
        self.state = "asleep"

    @property
    def idle(self) -> bool:
        """Whether no job is under way that anybody still wants."""
        return all(job.ended for job in list(self._newest.values()))

    def submit(self, key: str, run: Callable[[Worker, CancelToken], T]) -> Job[Worker, T]:
        """Queue a job. Its future gives None if the job was superseded or cancelled, or nothing is loaded."""
        self.cancel_ahead()
        return self._put(key, run)

    def submit_ahead(self, run: Callable[[Worker, CancelToken], T]) -> Job[Worker, T]:
        """Queue a job that no one waits for, in place of the one before."""
        return self._put(_AHEAD, run)

    def _put(self, key: str | None, run: Callable[[Worker, CancelToken], T]) -> Job[Worker, T]:
        self._cancel(key)
        self._newest = {other: job for other, job in self._newest.items() if not job.ended}
        job = Job(run, CancelToken(ahead=key is _AHEAD))
        self._newest[key] = job  # type: ignore[assignment]
        self._jobs.put(job)  # type: ignore[arg-type]
        return job

    def cancel(self, key: str) -> None:
        """Stop the job with this key, if there is one."""
        self._cancel(key)

    def cancel_ahead(self) -> None:
        self._cancel(_AHEAD)

    def _cancel(self, key: str | None) -> None:
        if job := self._newest.pop(key, None):
            job.cancel.cancel()

    def stop(self, timeout: float) -> None:
        """Cancel everything and wait so many seconds for the thread to end, but not if it is loading."""
        for job in list(self._newest.values()):
            job.cancel.cancel()
        self._jobs.put(None)
        if self._thread and self.state != "loading":
            self._thread.join(timeout)

    def _run(
        self,
        jobs: queue.SimpleQueue[Job[Worker, object] | None],
        before: threading.Thread | None,
        on_progress: Callable[[float], None],
        on_loaded: Callable[[], None],
    ) -> None:
        if before:
            before.join()
        failure = "" if self._jobs is jobs else "Another load was asked for before this one began."
        try:
            if not failure:
                worker = self._load(on_progress)
        except DraftlineError as error:
            failure = str(error)
        except Exception:
            logger.exception("loading failed")
            failure = "The model could not be loaded because of an error in draftline; see its log file."
        with self._lock:
            if self._jobs is jobs:  # else it is to be loaded anew, and this one is of no use any more
                self.worker = None if failure else worker
                self.state, self.failure = "failed" if failure else "ready", failure
        on_loaded()
        while (job := jobs.get()) is not None:
            if not job.future.set_running_or_notify_cancel():
                continue
            if failure:
                job.future.set_result(None)  # somebody waits for it all the same
            else:
                self._do(job, worker)
        if not failure:
            self._close(worker)

    @staticmethod
    def _do(job: Job[Worker, object], worker: Worker) -> None:
        try:
            result = None if job.cancel.cancelled else job.run(worker, job.cancel)
        except Exception as error:
            job.future.set_exception(error)
        else:
            job.future.set_result(None if job.cancel.cancelled else result)
