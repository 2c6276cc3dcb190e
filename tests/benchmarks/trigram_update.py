"""A repository's table made for the first time, and again after one file changed: seconds and memory.

    python -m tests.benchmarks.trigram_update FOLDER ... [--files 300]

The repository is a copy of the --files largest Python files below the folders. Each run is a process of its
own with a data folder of its own, but for the general table, which is the user's and is there already. The
time of `build_repository_trigram` is told apart from what comes before it: starting Python and reading the
tokenizer.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.trigram import resident

LARGEST_FILE = 300_000  # bytes; longer ones are tables
RUNS = 5


def build(repository: Path, started: float) -> None:
    from engine.tokenizer import Tokenizer
    from model_setup import store
    from model_setup.trigram import build_repository_trigram

    tokenizer = Tokenizer(store.resolve_model() / "tokenizer.json")
    path = store.trigram_path(repository, tokenizer.fingerprint)
    general = store.general_trigram_path(tokenizer.fingerprint)
    began, began_cpu = time.time(), time.process_time()
    report = build_repository_trigram(repository, tokenizer, path, general)
    ended, cpu = time.time(), time.process_time() - began_cpu
    peak = resident("VmHWM")
    print(
        f"{report.corpus.files} files, {report.tokens:,} tokens, {report.new_tokens:,} of them new: "
        f"{ended - began:.2f} s ({cpu:.2f} s of processor), {began - started:.2f} s before it, {peak:.0f} MB",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--started", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.started is not None:
        build(args.folders[0], args.started)
        return 0

    from model_setup import store
    from model_setup.corpus import held_out

    found = [path for folder in args.folders for path in folder.rglob("*.py")]
    sizes = {path: path.stat().st_size for path in found}
    largest = sorted((path for path in found if sizes[path] <= LARGEST_FILE), key=sizes.__getitem__)
    with tempfile.TemporaryDirectory() as work:
        repository, home = Path(work, "repository"), Path(work, "home")
        for number, path in enumerate(largest[-args.files :]):
            copy = repository / f"part{number % 20}" / f"{number}_{path.name}"
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        copies = sorted(repository.rglob("*.py"), key=lambda path: path.stat().st_size)
        learned = [path for path in copies if not held_out(path.relative_to(repository))]
        middling = learned[len(learned) // 2]
        (home / "trigrams").mkdir(parents=True)
        for name in ("models", "trigrams/general"):
            (home / name).symlink_to(store.home() / name)
        environment = {**os.environ, "DRAFTLINE_HOME": str(home)}
        for run in range(1 + RUNS):
            if run:
                with middling.open("a", encoding="utf-8") as file:
                    file.write(f"\nchanged = {run}\n")
            command = [sys.executable, "-m", "tests.benchmarks.trigram_update", str(repository)]
            subprocess.run([*command, "--started", f"{time.time()}"], check=True, env=environment)
    return 0


if __name__ == "__main__":
    sys.exit(main())
