"""Scripted hosts for tests: a model's folder, a host's place, and an end to every host that was started."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from engine.host.place import Place
from engine.host.remote import RemoteEngine, open_engine
from engine.host.wire import Open
from engine.request import SamplingParams
from model_setup.command_line import draftline_version
from tests.engine.byte_tokenizer import write_tokenizer

PATIENCE = 60.0  # seconds after which a test gives up; a busy machine may need many


class Desk:
    """One user's place, and a model there."""

    def __init__(self, folder: Path, linger: float = 30.0) -> None:
        self.home = folder
        self.place = Place(folder / "host")
        self.command = ["-m", "tests.engine.host.scripted_host", str(linger)]

    def model(self, name: str = "model", **script: Any) -> Path:
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        write_tokenizer(folder / "tokenizer.json")
        (folder / "script.json").write_text(json.dumps({"answers": {}} | script), encoding="utf-8")
        return folder

    def open(
        self, model: Path, idle: float = 60.0, device: str = "auto", threads: int | None = None
    ) -> RemoteEngine:
        return open_engine(self.place, self.command, Open(str(model), device, "auto", idle, threads))

    @property
    def process(self) -> int | None:
        found = self.place.read("host").get("process")
        return found if isinstance(found, int) and psutil.pid_exists(found) else None

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.process, getattr(signal, "SIGKILL", signal.SIGTERM))

    def log(self) -> str:
        return (self.place.folder / "log").read_text("utf-8")


def loads(model: Path) -> list[int]:
    """The process of each time that the model was loaded."""
    log = Path(f"{model}.loads")
    return [int(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


def generations(model: Path) -> list[tuple[str, int, str]]:
    """Prompt, number of tokens and guesses of each generation that has ended."""
    log = Path(f"{model}.log")
    return [tuple(json.loads(line)) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


def text(engine: RemoteEngine, prompt: str, **params: Any) -> str:
    ids = engine.tokenizer.encode(prompt)
    cycles = engine.generate(ids, SamplingParams(**{"max_tokens": 4000, "stop_ids": (256,)} | params))
    return engine.tokenizer.decode([token for cycle in cycles for token in cycle.tokens])


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


@contextmanager
def desk_of_servers(home: Path) -> Iterator[Desk]:
    """Where language servers with this ``DRAFTLINE_HOME`` look for their host, which has ended afterwards."""
    home.mkdir()
    desk = Desk(home)
    desk.place = Place.of(home, draftline_version())
    with ended(desk):
        yield desk


@contextmanager
def ended(desk: Desk) -> Iterator[Desk]:
    """However the test goes, its host has been killed in the end."""
    try:
        yield desk
    finally:
        if (process := desk.process) is not None:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(process).kill()
