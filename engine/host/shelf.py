"""The models in memory: each loaded once, unloaded when idle, refused when it keeps killing the host."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from engine.errors import DraftlineError
from engine.face import EngineFace
from engine.host.place import Place, write_beside
from engine.host.wire import Loaded, Open, Opened
from engine.kept import state_of

DEATHS = 2  # of a host while it loads a model, after which that is not tried again
GRUDGE = 600.0  # seconds for which it is not, unless its files change

logger = logging.getLogger(__name__)


class HostedEngine(EngineFace, Protocol):
    def guess_with(self, draft: Path | None, tables: Sequence[Path]) -> None:
        """See `engine.engine.Engine.guess_with`."""


class Loader(Protocol):
    """How the host comes by engines; its methods are called on the engine's thread."""

    def prepare(self) -> None:
        """Do now what every load needs, unless that was done."""

    def key(self, asked: Open) -> Hashable:
        """What tells engines apart: requests with equal keys share one.

        Raises:
            DraftlineError: there is no such thing.
        """

    def use_threads(self, chosen: int | None) -> None:
        """Compute on so many threads from now on; None: on one for each core."""

    def load(self, asked: Open, on_progress: Callable[[float], None]) -> HostedEngine:
        """As `engine.load`."""

    def free(self) -> None:
        """An engine has been dropped: let the system have its memory."""


@dataclass(eq=False)
class Shelved:
    """An engine in memory, and what its clients are told of it.

    used: when the last request ended, a time of ``time.monotonic``. users: clients. left: when the last of
    them has gone. full: the GPU's memory was too small for a request, so it goes as soon as nobody uses it.
    """

    key: Hashable
    engine: HostedEngine
    opened: Opened
    idle_seconds: float
    used: float = field(default_factory=time.monotonic)
    users: set[object] = field(default_factory=set)
    left: float = field(default_factory=time.monotonic)
    full: bool = False

    @property
    def ends(self) -> float:
        """When it is to be unloaded if nobody uses it meanwhile."""
        return self.used if self.full and not self.users else self.used + self.idle_seconds


class Shelf:
    """For the engine's thread; ``models`` may be read by any."""

    def __init__(self, place: Place, loader: Loader) -> None:
        self._place = place
        self._loader = loader
        self.models: tuple[Shelved, ...] = ()

    def take(self, asked: Open, on_progress: Callable[[float], None]) -> Shelved:
        """The engine that is asked for, loaded if it is not there. The last to ask sets its idle time
        and the threads.

        Raises:
            DraftlineError: it cannot be loaded, or hosts have died of trying.
        """
        deaths = self._deaths(asked)
        if deaths >= DEATHS:
            raise DraftlineError(
                f"Draftline's engine ended {deaths} times while it was loading {asked.oracle}, which may be "
                "damaged or too large for this machine's memory: choose another model, or fetch it again."
            )
        self._note(asked, {"state": _state(asked), "deaths": deaths + 1, "time": time.time()})
        try:
            key = self._loader.key(asked)
            self._loader.use_threads(asked.threads)
            found = next((model for model in self.models if model.key == key), None)
            if found is None:
                engine = self._loader.load(asked, on_progress)
                found = Shelved(key, engine, self._opened(asked, engine), asked.idle_seconds)
                self.models += (found,)
                logger.info("loaded %s in %.1f s", _what(asked), engine.load_seconds)
        finally:
            self._note(asked, None)
        found.idle_seconds = asked.idle_seconds
        found.used = time.monotonic()
        return found

    def _opened(self, asked: Open, engine: HostedEngine) -> Opened:
        return Opened(
            name=engine.name,
            tokenizer=str(self._tokenizer(Path(asked.oracle), engine)),
            fingerprint=engine.tokenizer.fingerprint,
            eos_ids=list(engine.eos_ids),
            max_context=engine.max_context,
            device=engine.device,
            weights=engine.weights,
            notice=engine.notice,
            load_seconds=engine.load_seconds,
            reading_seconds=engine.reading_seconds,
        )

    def _tokenizer(self, oracle: Path, engine: HostedEngine) -> Path:
        """Where clients find it: a GGUF file has it inside, so it is written out."""
        if oracle.is_dir():
            return oracle / "tokenizer.json"
        path = self._place.folder / f"tokenizer-{engine.tokenizer.fingerprint}.json"
        if not path.exists():
            write_beside(path, engine.tokenizer.to_json().encode())
        return path

    def _deaths(self, asked: Open) -> int:
        """How many hosts in a row have died while they loaded just this."""
        known = self._place.read("loading").get(_what(asked))
        if not isinstance(known, dict) or known.get("state") != _state(asked):
            return 0
        deaths, then = known.get("deaths"), known.get("time")
        if not isinstance(deaths, int) or not isinstance(then, float) or time.time() - then > GRUDGE:
            return 0
        return deaths

    def _note(self, asked: Open, loading: dict[str, object] | None) -> None:
        known = self._place.read("loading")
        known.pop(_what(asked), None)
        if loading is not None:
            known[_what(asked)] = loading
        try:
            self._place.write("loading", known)
        except OSError as error:
            raise DraftlineError(
                f"Draftline's engine cannot write in {self._place.folder} ({error.strerror or error}); make "
                "room there, or set DRAFTLINE_HOME to another folder."
            ) from error

    def standing(self) -> list[Loaded]:
        """What is told of the models."""
        now = time.monotonic()
        return [
            Loaded(
                *(model.opened.name, model.opened.device, model.opened.weights),
                *(len(model.users), now - model.used),
            )
            for model in self.models
        ]

    def drop(self, shelved: Shelved) -> None:
        logger.info("unloading %s", shelved.opened.name)
        self.models = tuple(other for other in self.models if other is not shelved)
        del shelved.engine  # whoever still holds the rest
        self._loader.free()


def _what(asked: Open) -> str:
    return f"{asked.oracle}, {asked.device}, {asked.weights}"


def _state(asked: Open) -> list[list[object]]:
    """As JSON gives it back."""
    return [list(file) for file in state_of(Path(asked.oracle))]
