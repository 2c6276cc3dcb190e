"""The host itself: one thread listens, two talk with each client, and one has the engine."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from functools import partial
from pathlib import Path

import psutil
from filelock import Timeout

from engine.errors import DraftlineError, OutOfMemory
from engine.host import wire
from engine.host.client import Client
from engine.host.door import Door
from engine.host.line import Gone, Pipe, greet
from engine.host.place import OCCUPIED, Place
from engine.host.schedule import Job, Schedule
from engine.host.shelf import Loader, Shelf, Shelved
from engine.host.tally import Done, Tally
from engine.request import CancelToken

LINGER = 300.0  # seconds after the last client has gone
LOOK = 10.0  # seconds between looks whether clients still find us
MOST_CLIENTS = 128  # two of a window, for a moment, when it wants its model again
MOST_JOBS = 16  # of one client that have not ended
_SETTLED = 0.5  # seconds without a job, after which it is time to get ready for one
_WAIT_FOR_LOCK = 5.0  # seconds: a host that is leaving takes a moment
_LAST_SECONDS = 5.0  # for what is under way when the host is stopped
_ERROR = "A suggestion failed because of an error in draftline; see the log file of its engine."
_LOAD_ERROR = (
    "The model could not be loaded because of an error in draftline; see the log file of its engine."
)

logger = logging.getLogger(__name__)


class Host:
    """Serves until it is stopped, or nobody needs it any more."""

    def __init__(self, place: Place, version: str, loader: Loader, linger: float = LINGER) -> None:
        """linger: seconds after the last client has gone. The place must be ready."""
        self._place = place
        self._version = version
        self._linger = linger
        self._schedule = Schedule()
        self._loader = loader
        self._shelf = Shelf(place, loader)
        self._tally = Tally()
        self._clients: set[Client] = set()
        self._lock = threading.Lock()  # of the clients
        self._began = self._alone_since = time.monotonic()
        self._prepared = False
        self._emptied: float | None = None  # when the last model of several was dropped
        self._leaving: wire.Reason | None = None

    def run(self) -> int:
        """Serve on this thread, which is the engine's; gives the process's exit code."""
        lock = self._place.lock("host")
        try:
            lock.acquire(timeout=_WAIT_FOR_LOCK)
        except Timeout:
            logger.info("another host is there")
            return OCCUPIED
        with lock:
            self._place.write("host", {"process": os.getpid(), "version": self._version})
            door = Door(self._place, MOST_CLIENTS)
            threading.Thread(target=self._accept, args=(door,), name="door", daemon=True).start()
            while self._leaving is None:
                job = self._schedule.next(self._seconds_left())
                if job is not None:
                    job.run(job.cancel)
                elif not self._prepared:
                    self._prepare()
                self._unload_idle()
                if not door.is_ours:
                    logger.warning("nobody finds this host any more: its folder, key or socket was deleted")
                    self._leaving = self._leaving or "stopped"
            logger.info("leaving: %s", self._leaving)
            door.take_away()
            for client in self._all():
                client.say(wire.Leaving(self._leaving))
            for client in self._all():
                client.end()
            self._forget_notes()
        return 0

    def stop(self) -> None:
        """Leave at once; from any thread. A model that is being loaded cannot be waited for."""
        self._leaving = self._leaving or "stopped"
        last = threading.Timer(_LAST_SECONDS, self._end)
        last.daemon = True
        last.start()
        for client in self._all():
            self._schedule.cancel(client)
        self._schedule.wake()

    def _end(self) -> None:
        logger.warning("ended in the middle of its work")
        self._forget_notes()
        os._exit(0)

    def _forget_notes(self) -> None:
        if self._place.read("host").get("process") == os.getpid():  # else another has our place
            for name in ("host", "starts", "loading"):
                self._place.forget(name)

    # The door

    def _accept(self, door: Door) -> None:
        while self._leaving is None:
            try:
                pipe = door.wait()
            except OSError:
                if self._leaving is None:
                    logger.exception("a client could not be let in")
                    time.sleep(0.1)
                continue
            threading.Thread(target=self._serve, args=(pipe, door.key), name="client", daemon=True).start()

    def _serve(self, pipe: Pipe, key: bytes) -> None:
        try:
            line = greet(pipe, key, first=True)
        except Gone:
            logger.warning("somebody who does not know the key was turned away")
            return
        client = Client(line)
        with self._lock:
            room = len(self._clients) < MOST_CLIENTS
            if room:
                self._clients.add(client)
        try:
            while room:
                self._heard(client, wire.for_host(line.receive()))
            client.say(wire.Leaving("full"))
            client.end()
        except Gone:
            pass
        except wire.Malformed as error:
            logger.warning("a client that said what it may not was dropped: %s", error)
        finally:
            self._forget(client)
            client.end()
            line.close()

    def _heard(self, client: Client, message: wire.ToHost) -> None:
        if isinstance(message, wire.Generate):
            if client.model is None:
                raise wire.Malformed("a request before there was a model")
            if self._schedule.jobs_of(client) >= MOST_JOBS:
                raise wire.Malformed("too many requests at once")
            run = partial(self._generate, client, client.model, message)
            self._schedule.add(Job(client, message.request, run, CancelToken(message.ahead)))
        elif isinstance(message, wire.Cancel):
            for _ in self._schedule.cancel(client, message.request):
                client.say(wire.Ended(message.request, whole=False))
        elif isinstance(message, wire.Open):
            if client.asked is not None:
                raise wire.Malformed("a second model")
            client.asked = message
            self._schedule.add(Job(client, None, partial(self._open, client, message)))
        elif isinstance(message, wire.Ask):
            client.say(self._standing())
        else:
            self.stop()

    def _all(self) -> list[Client]:
        with self._lock:
            return list(self._clients)

    def _forget(self, client: Client) -> None:
        self._schedule.cancel(client)
        with self._lock:
            self._clients.discard(client)
            if client.model:
                client.model.users.discard(client)
                client.model.left = time.monotonic()
            if not self._clients:
                self._alone_since = time.monotonic()
        self._schedule.wake()

    # The engine's thread

    def _prepare(self) -> None:
        self._prepared = True
        try:
            self._loader.prepare()
        except Exception:
            logger.exception("what every load needs is not there")  # and told by the first load

    def _open(self, client: Client, asked: wire.Open, cancel: CancelToken) -> None:
        def progress(fraction: float) -> None:
            for other in self._all():
                if other.model is None and other.asked and other.asked.oracle == asked.oracle:
                    other.say(wire.Loading(fraction))

        if cancel.cancelled:
            return
        try:
            model = self._shelf.take(asked, progress)
        except DraftlineError as error:
            return client.say(wire.Refused(None, str(error), isinstance(error, OutOfMemory)))
        except Exception:
            logger.exception("loading failed")
            return client.say(wire.Refused(None, _LOAD_ERROR))
        with self._lock:
            if client in self._clients:
                client.model = model
                model.users.add(client)
        client.say(model.opened)

    def _generate(self, client: Client, model: Shelved, message: wire.Generate, cancel: CancelToken) -> None:
        request, done = message.request, Done(requests=int(message.params.max_tokens > 0))
        if cancel.cancelled:
            return client.say(wire.Ended(request, whole=False))
        self._take_the_cache(client, model)
        try:
            draft = None if message.draft is None else Path(message.draft)
            model.engine.guess_with(draft, [Path(table) for table in message.tables])
            for cycle in model.engine.generate(
                message.prompt, message.params, cancel, message.context, message.begins_with
            ):
                guessed = sum(origin != "oracle" for origin in cycle.origins)
                done += Done(0, len(cycle.tokens), guessed, cycle.seconds)
                client.say(wire.Emitted(request, cycle.tokens, cycle.origins, cycle.rows, cycle.seconds))
            client.say(wire.Ended(request, whole=not cancel.cancelled))
        except DraftlineError as error:
            model.full |= isinstance(error, OutOfMemory)
            client.say(wire.Refused(request, str(error), isinstance(error, OutOfMemory)))
        except Exception:
            logger.exception("a request failed")
            client.say(wire.Refused(request, _ERROR))
        finally:
            model.used = time.monotonic()
            self._tally.add(done)

    def _take_the_cache(self, client: Client, model: Shelved) -> None:
        for other in self._all():
            if other is not client and other.model is model and other.in_cache:
                other.in_cache = False
                other.say(wire.Elsewhere())
        client.in_cache = True

    def _seconds_left(self) -> float:
        """Until the next thing is to be given up, or got ready, if nothing happens."""
        ends = [self._lonely_until(), self._empty_until(), *map(self._ends, self._shelf.models)]
        return min(max(0.0, min(ends) - time.monotonic()), LOOK if self._prepared else _SETTLED)

    def _ends(self, model: Shelved) -> float:
        """When a model is to be unloaded: clients that have none, or another, do not keep it."""
        return model.ends if model.users else min(model.ends, model.left + self._linger)

    def _empty_until(self) -> float:
        """When this process, which has had models and has none, is to make room for one that had none."""
        if self._emptied is None or self._shelf.models or self._somebody_waits():
            return math.inf
        return self._emptied + self._linger

    def _lonely_until(self) -> float:
        with self._lock:
            return math.inf if self._clients else self._alone_since + self._linger

    def _unload_idle(self) -> None:
        for model in self._shelf.models:
            if self._ends(model) <= time.monotonic():
                self._unload(model)
        if self._empty_until() <= time.monotonic():
            self._leaving = self._leaving or "idle"
        if self._leaving is None and self._lonely_until() <= time.monotonic():
            self._leaving = "alone"

    def _unload(self, model: Shelved) -> None:
        if len(self._shelf.models) == 1 and not model.full and not self._somebody_waits():
            self._leaving = self._leaving or "idle"
            return
        for client in [one for one in self._all() if one.model is model]:
            self._schedule.cancel(client)
            client.say(wire.Leaving("idle"))
            client.end()
        self._shelf.drop(model)
        self._emptied = time.monotonic()

    def _somebody_waits(self) -> bool:
        """Whether another model is asked for."""
        return any(client.model is None and client.asked for client in self._all())

    def _standing(self) -> wire.Standing:
        done = self._tally.sum()
        return wire.Standing(
            version=self._version,
            process=os.getpid(),
            up_seconds=time.monotonic() - self._began,
            clients=sum(client.asked is not None for client in self._all()),
            memory=psutil.Process().memory_info().rss,
            models=self._shelf.standing(),
            requests=done.requests,
            tokens=done.tokens,
            accepted=done.accepted,
            seconds=done.seconds,
        )
