"""Counting 100M tokens through Parquet tables: seconds, peak memory and bytes of each step.

    python -m tests.benchmarks.count_tables [--tokens 100000000] [--memory 1GB] [--source FOLDER ...]
        [--work FOLDER]

The text is that of tests/benchmarks/trigram.py: Python source, read again and again with one token in ten
replaced where there is too little. Each step is a process of its own: writing tables of tokens, counting each
into a sorted run, adding the runs up with DuckDB within --memory, and block by block without it. At the end
the two sums are compared. --work keeps all tables.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from model_setup.count_tables import (
    count_tokens,
    duckdb_merge,
    merge_tables,
    read_counts_table,
    write_tokens,
)
from tests.benchmarks.trigram import documents, resident, tokenise

RUN_TOKENS = 4_000_000
REAL_TOKENS = 10_000_000


def write(work: Path, tokens: int, memory: str) -> None:
    texts = documents(work, tokens)
    for number in itertools.count():
        if not (first := list(itertools.islice(texts, 1))):
            return
        write_tokens(work / "tokens" / f"{number:03}.parquet", _up_to(itertools.chain(first, texts)))


def _up_to(texts: Iterator[NDArray[np.uint32]]) -> Iterator[NDArray[np.uint32]]:
    left = RUN_TOKENS
    for text in texts:
        yield text
        left -= len(text)
        if left <= 0:
            return


def count(work: Path, tokens: int, memory: str) -> None:
    vocabulary = int((work / "vocabulary").read_text(encoding="utf-8"))
    for path in sorted((work / "tokens").iterdir()):
        count_tokens(path, work / "runs" / path.name, vocabulary)


def runs(work: Path) -> list[Path]:
    return sorted((work / "runs").iterdir())


def duckdb(work: Path, tokens: int, memory: str) -> None:
    duckdb_merge(runs(work), work / "duckdb.parquet", memory)


def blocks(work: Path, tokens: int, memory: str) -> None:
    merge_tables(runs(work), work / "blocks.parquet")


def compare(work: Path, tokens: int, memory: str) -> None:
    one, other = (read_counts_table(work / f"{name}.parquet") for name in ("duckdb", "blocks"))
    assert np.array_equal(one.keys, other.keys)
    assert np.array_equal(one.counts, other.counts)
    rare = (one.counts == 1).mean()
    print(f"both sums: {one.tokens:,} tokens, {len(one.keys):,} keys, {rare:.0%} of them seen once")


STEPS = {
    "write": (write, "tokens"),
    "count": (count, "runs"),
    "duckdb": (duckdb, "duckdb.parquet"),
    "blocks": (blocks, "blocks.parquet"),
    "compare": (compare, ""),
}


def size(path: Path) -> int:
    return sum(file.stat().st_size for file in ([path] if path.is_file() else path.iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=100_000_000)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--source", type=Path, nargs="+")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step:
        step, made = STEPS[args.step]
        began, began_cpu = time.time(), time.process_time()
        step(args.work, args.tokens, args.memory)
        peak = resident("VmHWM")
        made_bytes = f", {size(args.work / made) / 1e6:.0f} MB of tables" if made else ""
        print(
            f"{args.step:8}{time.time() - began:7.1f} s, {time.process_time() - began_cpu:.1f} of processor; "
            f"{peak:.0f} MB of memory at most{made_bytes}",
            flush=True,
        )
        return 0

    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "vocabulary").exists():
            library = sysconfig.get_paths()
            folders = args.source or [Path(library["stdlib"]), Path(library["purelib"])]
            reading = multiprocessing.Process(target=tokenise, args=(folders, REAL_TOKENS, work))
            reading.start()
            reading.join()
        real = int(np.load(work / "lengths.npy").sum())
        print(
            f"{args.tokens:,} tokens, {min(real, args.tokens) / args.tokens:.0%} of them real text",
            flush=True,
        )
        for step in STEPS:
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.count_tables",
                "--step",
                step,
                "--work",
                str(work),
            ]
            subprocess.run([*command, "--tokens", str(args.tokens), "--memory", args.memory], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
