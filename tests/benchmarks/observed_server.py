"""The real server, with a record of when its engine worked: ``python -m tests.benchmarks.observed_server``.

Takes ``--model`` and ``--weights`` as `draftline` does. One request is added: ``benchmark/work`` takes
``{since}`` and gives what has happened from then on, as `Work` describes it. Times are of
``time.perf_counter``, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.request import CancelToken, Cycle, SamplingParams
from lsp_server import stdio
from lsp_server.completer import Completer
from lsp_server.loading import load_completer
from lsp_server.logs import log_to_file
from lsp_server.server import DraftlineServer
from lsp_server.settings import Settings
from lsp_server.writer import EngineWriter
from tests.benchmarks.trigram import resident


@dataclass
class Generation:
    """ended: None while it runs. wanted: tokens asked for, 0 where only the prompt is to be read. cut: it was
    cancelled."""

    begun: float
    wanted: int
    ended: float | None = None
    tokens: int = 0
    cut: bool = False


@dataclass
class Work:
    """generations: those not ended before the time asked for. passes: (start, end) of each call of the
    engine. memory: resident MB of the process. processor: seconds of it that the process has used."""

    generations: list[Generation] = field(default_factory=list)
    passes: list[tuple[float, float]] = field(default_factory=list)
    memory: float = 0.0
    processor: float = 0.0


class Watched:
    """An engine's ``generate`` that writes down when it works."""

    def __init__(self, generate: Callable[..., Iterator[Cycle]]) -> None:
        self._generate = generate
        self._all = Work()

    def __call__(
        self, prompt_ids: Sequence[int], params: SamplingParams, cancel: CancelToken, *more: Any, **named: Any
    ) -> Iterator[Cycle]:
        generation = Generation(time.perf_counter(), params.max_tokens)
        self._all.generations.append(generation)
        cycles = self._generate(prompt_ids, params, cancel, *more, **named)
        try:
            while True:
                started = time.perf_counter()
                cycle = next(cycles, None)
                self._all.passes.append((started, time.perf_counter()))
                if cycle is None:
                    return
                generation.tokens += len(cycle.tokens)
                yield cycle
        finally:
            generation.cut = cancel.cancelled
            generation.ended = time.perf_counter()

    def since(self, start: float) -> Work:
        return Work(
            [one for one in self._all.generations if one.ended is None or one.ended >= start],
            [times for times in self._all.passes if times[1] >= start],
            resident("VmRSS"),
            time.process_time(),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--weights", default="auto")
    args = parser.parse_args()
    watched: list[Watched] = []

    def load(settings: Settings, on_progress: Callable[[float], None]) -> Completer:
        completer = load_completer(settings, on_progress)
        assert isinstance(completer.writer, EngineWriter)
        engine = completer.writer.engine
        watched.append(Watched(engine.generate))
        engine.generate = watched[0]  # type: ignore[method-assign, assignment]
        return completer

    def work(server: DraftlineServer, params: Any) -> dict[str, Any]:
        return asdict(watched[0].since(params.since))

    log_to_file()
    server = DraftlineServer(load, {"model": args.model, "weights": args.weights})
    server.feature("benchmark/work")(work)
    stdio.serve(server)


if __name__ == "__main__":
    main()
