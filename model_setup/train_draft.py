"""Train a repository's draft on several GPUs:

    accelerate launch --num_processes 2 -m model_setup.train_draft [REPO] [--seconds 480] [--model MODEL]

Each process trains on its share of every step; the first one writes. (On one GPU, or none, `model-setup`
itself trains it.)
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from model_setup import store
from model_setup.command_line import OneSentenceParser, positive, run_command
from model_setup.progress import say

_SECONDS_BETWEEN_LINES = 5.0


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command(lambda: _main(sys.argv[1:] if arguments is None else arguments))


def _main(arguments: Sequence[str]) -> int:
    parser = OneSentenceParser(prog="model_setup.train_draft", description="Train a repository's draft.")
    parser.add_argument("repository", nargs="?", type=Path, default=Path(), metavar="REPO")
    parser.add_argument("--seconds", type=positive, default=480, help="how long, about (default: 480)")
    parser.add_argument(
        "--model", help="for which model: a preset or a directory (default: the installed one)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options = parser.parse_args(arguments)
    from model_setup.draft import make_draft  # brings in torch and transformers

    oracle = store.resolve_model(options.model)
    root = store.repository_root(options.repository)
    directory = store.draft_directory(root, oracle.name)
    report = make_draft(root, oracle, directory, options.seconds, _tell_now_and_then(), device=options.device)
    if int(os.environ.get("RANK", "0")) == 0:
        say(f"The draft ({report.outcome}): {report.before}; now {report.after}: {directory}")
    return 0


def _tell_now_and_then() -> Callable[[str, float], None]:
    last = -_SECONDS_BETWEEN_LINES

    def tell(what: str, fraction: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN_LINES:
            last = now
            say(f"{100 * min(fraction, 1):3.0f} % {what}")

    return tell


if __name__ == "__main__":
    sys.exit(main())
