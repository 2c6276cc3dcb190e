"""A real host whose engines are scripted: ``python -m tests.engine.host.scripted_host LINGER FOLDER``.

A "model" is a folder with a ``tokenizer.json`` and a ``script.json``: ``answers`` maps the end of a
prompt's text before the cursor to what is written for it (the longest that fits is taken), one byte a token
and a cycle. At ``THREADS`` it writes on how many it computes, at ``CRASH`` it fails, at ``FULL`` the GPU's
memory is full, at ``DIE`` the process dies. ``delay`` is the seconds of a cycle, ``load`` is ``ok``,
``die`` or the sentence that loading fails with, ``load_seconds`` what it takes. ``log`` beside the model
has a line for each generation that has ended: its prompt's text, how many tokens it came to, and the names
of its draft and table.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

from engine.errors import DraftlineError, OutOfMemory
from engine.host.place import Place
from engine.host.process import Host
from engine.host.wire import Open
from engine.request import CancelToken, Cycle, SamplingParams
from engine.tokenizer import Tokenizer

ENDLESS = "x = 1\n" * 100
END, SUFFIX, MIDDLE = 256, 258, 259


def die() -> None:
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))


class HostedScript:
    """The same face as ``engine.Engine``."""

    weights, notice, eos_ids, max_context, load_seconds = "fp32", "", (END,), 4096, 0.5
    reading_seconds = 0.0025
    displaced = 0
    threads: int | None = 0  # of all engines of the process

    def __init__(self, folder: Path, device: str) -> None:
        self.name = folder.name
        self.device = device
        self.tokenizer = Tokenizer(folder / "tokenizer.json")
        self._folder = folder
        self._script = json.loads((folder / "script.json").read_text("utf-8"))
        self._guesses = ""

    def guess_with(self, draft: Path | None, tables: Sequence[Path]) -> None:
        self._guesses = " ".join(path.name for path in [draft, *tables] if path)

    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken | None = None,
        context_ids: Sequence[int] | None = None,
        begins_with: str = "",
    ) -> Iterator[Cycle]:
        asked = self._before(prompt_ids)
        fitting = [end for end in self._script["answers"] if (asked + begins_with).endswith(end)]
        answer = self._script["answers"][max(fitting, key=len)] if fitting else ""
        if answer == "THREADS":
            answer = str(self.threads)
        if answer == "CRASH":
            raise RuntimeError(answer)
        if answer == "FULL" and self.device != "cpu":
            raise OutOfMemory("The GPU's memory is full: close what else uses it.")
        if answer == "DIE":
            die()
        written = 0
        try:
            for token in [*self.tokenizer.encode(begins_with + answer), END][: params.max_tokens]:
                if (cancel and cancel.cancelled) or token in params.stop_ids:
                    return
                time.sleep(self._script.get("delay", 0))
                written += 1
                yield Cycle([token], ["draft2" if written % 2 else "oracle"], 1, 0.001)
        finally:
            with Path(f"{self._folder}.log").open("a", encoding="utf-8") as log:
                log.write(json.dumps([asked, written, self._guesses]) + "\n")

    def _before(self, prompt: Sequence[int]) -> str:
        if SUFFIX in prompt:
            prompt = [*prompt[: prompt.index(SUFFIX)], *prompt[prompt.index(MIDDLE) :]]
        return self.tokenizer.decode(prompt)


class ScriptedLoader:
    def prepare(self) -> None:
        pass

    def key(self, asked: Open) -> Hashable:
        return asked.oracle, asked.device

    def use_threads(self, chosen: int | None) -> None:
        HostedScript.threads = chosen

    def load(self, asked: Open, on_progress: Callable[[float], None]) -> HostedScript:
        script = json.loads((Path(asked.oracle) / "script.json").read_text("utf-8"))
        with Path(f"{asked.oracle}.loads").open("a", encoding="utf-8") as log:
            log.write(f"{os.getpid()}\n")
        on_progress(0.25)
        time.sleep(script.get("load_seconds", 0))
        if script.get("load", "ok") == "die":
            die()
        if script.get("load", "ok") != "ok":
            raise DraftlineError(script["load"])
        on_progress(1.0)
        return HostedScript(Path(asked.oracle), asked.device)

    def free(self) -> None:
        pass


if __name__ == "__main__":
    linger, folder = sys.argv[1:]
    logging.basicConfig(filename=Path(folder) / "log", level=logging.INFO, encoding="utf-8")
    code = Host(Place(Path(folder)), "test", ScriptedLoader(), float(linger)).run()
    logging.shutdown()
    os._exit(code)
