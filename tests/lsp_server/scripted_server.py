"""The real server over stdio with a scripted engine: ``python scripted_server.py JSON``.

JSON: ``answers`` maps the end of a prefix to what the model writes (the longest that fits is taken); it
writes one of a list, by the seed; at ``CRASH`` it fails, at ``FULL`` the GPU's memory is full, and at
``LENGTH`` it writes the prompt's length in characters. ``delay`` is the seconds each cycle takes; ``load``
is ``ok``, ``slow`` (a second), ``never`` or the sentence it fails with. ``battery``: whether the machine
runs on one. ``notice`` is the engine's, ``device`` is where it runs unless it was told to take the CPU.
``log`` is a file that takes a line for each generation that ends: how many tokens it came to (a prompt that
is only read leaves none). ``tokens_per_cycle`` may be left out and is 1 then: the first of each cycle is the
oracle's, the others draft2's.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from engine.errors import DraftlineError, OutOfMemory
from engine.request import Cycle, SamplingParams
from lsp_server import stdio
from lsp_server.completer import Completer
from lsp_server.logs import log_to_file
from lsp_server.server import DraftlineServer
from lsp_server.settings import Settings
from lsp_server.writer import EngineWriter
from tests.lsp_server.scripted_engine import ScriptedEngine


class LoggingEngine(ScriptedEngine):
    def __init__(self, *args: Any, log: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._log = Path(log)

    def generate(
        self, prompt_ids: Sequence[int], params: SamplingParams, *args: Any, **options: Any
    ) -> Iterator[Cycle]:
        before = self.emitted
        try:
            yield from super().generate(prompt_ids, params, *args, **options)
        finally:
            if params.max_tokens:
                with self._log.open("a", encoding="utf-8") as file:
                    file.write(f"{self.emitted - before}\n")


def main() -> None:
    given = json.loads(sys.argv[1])
    answers: dict[str, str | list[str]] = given["answers"]
    engine: LoggingEngine

    def script(prefix: str, suffix: str) -> str:
        fitting = [end for end in answers if prefix.endswith(end)]
        if not fitting:
            return ""
        answer = answers[max(fitting, key=len)]
        if answer == "CRASH":
            raise RuntimeError("out of memory")
        if answer == "FULL":
            raise OutOfMemory("The GPU's memory is full: close what else uses it.")
        if answer == "LENGTH":
            return str(len(prefix) + len(suffix))
        return answer if isinstance(answer, str) else answer[engine.asked[-1].seed % len(answer)]

    def load(settings: Settings, on_progress: Callable[[float], None]) -> Completer:
        on_progress(0.25)
        while given["load"] == "never":
            time.sleep(0.01)
        if given["load"] == "slow":
            time.sleep(1.0)
        elif given["load"] != "ok":
            raise DraftlineError(given["load"])
        on_progress(1.0)
        step = given.get("tokens_per_cycle", 1)
        nonlocal engine
        engine = LoggingEngine(script, delay=given["delay"], tokens_per_cycle=step, log=given["log"])
        engine.notice = given.get("notice", "")
        engine.device = "cpu" if settings.device == "cpu" else given.get("device", "cpu")
        engine.name = settings.model or engine.name
        return Completer(EngineWriter(engine))

    battery = SimpleNamespace(power_plugged=False) if given.get("battery") else None
    psutil.sensors_battery = lambda: battery
    log_to_file()
    stdio.serve(DraftlineServer(load))


if __name__ == "__main__":
    main()
