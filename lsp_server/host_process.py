"""The process that holds the models: ``python -m lsp_server.host_process FOLDER``, see `engine.host`."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.host.place import Place
from engine.host.process import Host
from engine.host.wire import Open
from engine.process_memory import give_back
from lsp_server.logs import log_to_file
from lsp_server.machine import step_back, use_threads
from model_setup.command_line import draftline_version
from model_setup.store import step_times_path

if TYPE_CHECKING:
    from engine.engine import Engine

LOG = "engine.log"


class ModelLoader:
    """Real models."""

    def __init__(self) -> None:
        self._prepared = False

    def prepare(self) -> None:
        if self._prepared:
            return
        gc.disable()  # what is imported stays: to look through it again and again takes 0.2 to 0.4 s
        try:
            import engine.engine  # noqa: F401 -- with PyTorch, which takes two seconds
        finally:
            gc.freeze()
            gc.enable()
        self._prepared = True

    def key(self, asked: Open) -> Hashable:
        self.prepare()
        from engine.placement import placements

        return asked.oracle, placements(asked.device, asked.weights)[0]

    def use_threads(self, chosen: int | None) -> None:
        use_threads(chosen)

    def load(self, asked: Open, on_progress: Callable[[float], None]) -> Engine:
        from engine import load

        return load(
            asked.oracle,
            device=asked.device,
            weights=asked.weights,
            on_progress=on_progress,
            step_times=step_times_path(),
        )

    def free(self) -> None:
        import torch

        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        give_back()


def main() -> int:
    faulthandler.enable()
    step_back()
    log_to_file(LOG)
    host = Host(Place(Path(sys.argv[1])), draftline_version(), ModelLoader())

    def stop(*_: object) -> None:
        # Not here: the signal may have come while this thread held a lock that stopping needs.
        threading.Thread(target=host.stop).start()

    signal.signal(signal.SIGTERM, stop)
    return host.run()


if __name__ == "__main__":
    code = main()
    logging.shutdown()
    os._exit(code)  # PyTorch's own end takes a while, and nobody waits for it
