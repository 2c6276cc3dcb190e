"""Counting, writing, opening and asking a large trigram table: seconds, memory, bytes.

    python tests/benchmarks/trigram.py [--tokens 20000000] [--source FOLDER ...] [--work FOLDER]

The text is Python source, tokenised with the default model's tokenizer: the files below each source folder
(by default this interpreter's library and packages), of several versions of a file one. Where that is too
little, it is read again with one token in ten replaced by another of the same file, which makes new n-grams
of it. Counting and asking run in processes of their own, so that their memory is theirs; asking begins with
none of the table in the system's cache, where the system can be told so. --work keeps the tokens.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.ngram import NgramTable

REPLACED = 0.1
VERY_LONG = 250_000  # bytes; longer files are tables and generated code
LOOKUPS = 1000


def tokenise(folders: list[Path], wanted: int, work: Path) -> None:
    """Write the token ids of distinct source files to ``work``, until ``wanted`` are there."""
    from engine.tokenizer import Tokenizer
    from model_setup.store import resolve_model

    tokenizer = Tokenizer(resolve_model(None) / "tokenizer.json")
    seen: set[tuple[str, ...]] = set()
    lengths: list[int] = []
    batch: list[str] = []
    done = 0
    with (work / "ids.u32").open("wb") as file:
        paths = [path for folder in folders for path in sorted(folder.rglob("*.py")) if path.is_file()]
        random.Random(0).shuffle(paths)
        for number, path in enumerate(paths):
            name = path.parts[-3:]  # other versions of a file are nearly the same text
            if name not in seen and path.stat().st_size <= VERY_LONG:
                seen.add(name)
                batch.append(path.read_text(encoding="utf-8", errors="replace"))
            if len(batch) == 500 or number == len(paths) - 1:
                for ids in tokenizer.encode_batch(batch):
                    file.write(np.array(ids, dtype=np.uint32).tobytes())
                    lengths.append(len(ids))
                    done += len(ids)
                batch = []
                if done >= wanted:
                    break
    np.save(work / "lengths.npy", np.array(lengths))
    (work / "vocabulary").write_text(f"{tokenizer.vocab_size}", encoding="utf-8")


def documents(work: Path, wanted: int) -> Iterator[NDArray[np.uint32]]:
    """The files' ids, then, if ``wanted`` tokens are not there yet, perturbed copies."""
    lengths = np.load(work / "lengths.npy")
    noise = np.random.default_rng(0)
    for reading in range(sys.maxsize):
        with (work / "ids.u32").open("rb") as file:
            for length in lengths:
                ids = np.frombuffer(file.read(4 * length), dtype=np.uint32)[:wanted]
                if reading and len(ids):
                    replaced = noise.random(len(ids)) < REPLACED
                    ids = np.where(replaced, noise.permutation(ids), ids)
                yield ids
                wanted -= len(ids)
                if wanted <= 0:
                    return


def resident(field: str) -> float:
    """VmRSS or VmHWM (the peak) of this process in MB; where the system has no such file, nan."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(field))


def count_and_write(work: Path, wanted: int) -> None:
    from engine.katz import write_counts
    from engine.ngram_count import count

    vocabulary = int((work / "vocabulary").read_text(encoding="utf-8"))
    before = resident("VmRSS")
    began, began_cpu = time.perf_counter(), time.process_time()
    texts = list(documents(work, wanted)) if wanted <= 20_000_000 else documents(work, wanted)
    read = time.perf_counter()
    counts = count(texts, vocabulary)
    counted, counted_cpu = time.perf_counter(), time.process_time()
    print(f"counted {counts.tokens:,} tokens, {len(counts.keys):,} distinct keys")
    print(f"  counting      {counted - read:7.1f} s, {counts.tokens / (counted - read) / 1e6:.2f} M tokens/s")
    print(f"  reading       {read - began:7.1f} s (where 0, counting includes it)")
    print(f"  of processor  {counted_cpu - began_cpu:7.1f} s for both")
    print(f"  peak so far   {resident('VmHWM'):7.0f} MB, {before:.0f} of them before the start")
    del texts
    path = work / "table"
    write_counts(path, counts, vocabulary, "benchmark")
    written = time.perf_counter()
    print(f"  writing       {written - counted:7.1f} s")
    print(f"  both          {counts.tokens / (written - read) / 1e6:.2f} M tokens/s")
    print(f"  peak          {resident('VmHWM'):7.0f} MB")
    print(f"  on disk       {path.stat().st_size / 1e6:7.1f} MB")


def timed(table: NgramTable, contexts: list[list[int]]) -> tuple[list[float], float]:
    """Seconds of each `top`, rising, and what is resident then."""
    took = []
    for context in contexts:
        began = time.perf_counter()
        table.top(context, 4)
        took.append(time.perf_counter() - began)
    return sorted(took), resident("VmRSS")


def ask(work: Path, wanted: int) -> None:
    text = np.fromfile(work / "ids.u32", dtype=np.uint32)[:wanted]
    places = np.random.default_rng(1).integers(2, len(text), (2, LOOKUPS))
    cold, other = ([text[at - 2 : at].tolist() for at in row] for row in places)
    del text
    if hasattr(os, "posix_fadvise"):
        with (work / "table").open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = resident("VmRSS")
    began = time.perf_counter()
    table = NgramTable(work / "table", "benchmark")
    opened = time.perf_counter()
    first = resident("VmRSS")
    took = [timed(table, contexts) for contexts in (cold, cold, other)]
    size = (work / "table").stat().st_size / 1e6
    print("tokens, bigrams, trigrams: {:,} {:,} {:,}".format(*table.sizes))
    print(f"  opening       {(opened - began) * 1e3:7.2f} ms")
    print(f"  resident      {first - before:7.1f} MB more when open, of {size:.1f}")
    for name, (seconds, after) in zip(("first", "again", "others"), took, strict=True):
        middle, late = seconds[LOOKUPS // 2] * 1e6, seconds[-LOOKUPS // 100] * 1e6
        print(f"  {LOOKUPS} {name:6} median {middle:6.1f} us, p99 {late:8.1f}, then {after - before:5.1f} MB")
    worst = max(abs(table.distribution(context).sum() - 1) for context in other[:100])
    print(f"  sums of 100 contexts differ from 1 by at most {worst:.1e}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tokens", type=int, default=20_000_000)
    parser.add_argument("--source", type=Path, nargs="+")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--part", choices=("count", "ask"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part:
        (count_and_write if args.part == "count" else ask)(args.work, args.tokens)
        return 0

    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        if not (work / "vocabulary").exists():
            library = sysconfig.get_paths()
            tokenise(args.source or [Path(library["stdlib"]), Path(library["purelib"])], args.tokens, work)
        real = min(int(np.load(work / "lengths.npy").sum()), args.tokens)
        print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
        print(f"{args.tokens:,} tokens, {real / args.tokens:.0%} of them real text", flush=True)
        for part in ("count", "ask"):
            command = [sys.executable, __file__, "--part", part, "--work", str(work)]
            subprocess.run([*command, "--tokens", str(args.tokens)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
