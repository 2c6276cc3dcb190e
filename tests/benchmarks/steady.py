"""Thousands of short requests to one engine: does its memory grow, does it become slower?

    python -m tests.benchmarks.steady [--requests 2000] [--model NAME] [--weights KIND] [--draft DIRECTORY]

A block is 100 requests of random lengths, prompts of 1 to 64 tokens and texts of 1 to 8, and every block is
the same requests in another order, so that the blocks' times can be compared. Every tenth is cancelled in mid
text. Prints what each block took and what is resident after it. The exit code is 1 if memory grew by more
than 20 MB after the first block, or if the last quarter of the blocks took 10 % longer than the first (its
first block, which warms everything up, left out).
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from engine import CancelToken, DraftlineError, Engine, SamplingParams, load
from model_setup.store import general_trigram_path, resolve_model, step_times_path
from tests.benchmarks.trigram import resident

BLOCK = 100
LONGEST_PROMPT, LONGEST_TEXT = 64, 8
CANCELLED = 10  # one in so many
MOST_GROWTH = 20.0  # MB
MOST_SLOWDOWN = 1.1


class Wish(NamedTuple):
    prompt: list[int]
    tokens: int
    cancelled: bool


class Block(NamedTuple):
    """seconds: of all its requests. resident: MB afterwards."""

    seconds: float
    resident: float


def wishes(text: Sequence[int], rng: random.Random) -> list[Wish]:
    """One block of requests at random places of ``text``."""
    made = []
    for number in range(BLOCK):
        length = rng.randint(1, LONGEST_PROMPT)
        start = rng.randrange(len(text) - length)
        prompt = list(text[start : start + length])
        made.append(Wish(prompt, rng.randint(1, LONGEST_TEXT), number % CANCELLED == 0))
    return made


def serve(engine: Engine, wish: Wish) -> None:
    cancel = CancelToken()
    for cycle in engine.generate(wish.prompt, SamplingParams(wish.tokens), cancel=cancel):
        if wish.cancelled and cycle.tokens:
            cancel.cancel()


def run(engine: Engine, blocks: int, on_block: Callable[[int, Block], None]) -> list[Block]:
    rng = random.Random(0)
    text = engine.tokenizer.encode(Path(argparse.__file__).read_text(encoding="utf-8"))
    block = wishes(text, rng)
    done = []
    for number in range(blocks):
        rng.shuffle(block)
        started = time.perf_counter()
        for wish in block:
            serve(engine, wish)
        done.append(Block(time.perf_counter() - started, resident("VmRSS")))
        on_block(number, done[-1])
    return done


def verdict(blocks: Sequence[Block]) -> tuple[float, float]:
    """MB by which memory grew after the first block, and the last quarter's time over the first's."""
    quarter = max(1, len(blocks) // 4)
    times = [block.seconds for block in blocks]
    slower = statistics.median(times[-quarter:]) / statistics.median(times[1 : 1 + quarter])
    return blocks[-1].resident - blocks[0].resident, slower


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=2000, help=f"in blocks of {BLOCK}, at least two")
    parser.add_argument("--model", help="a preset, directory or file (default: the default preset)")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--draft", type=Path, help="a directory of a smaller model that guesses")
    args = parser.parse_args()
    try:
        engine = load(
            resolve_model(args.model), draft=args.draft, weights=args.weights, step_times=step_times_path()
        )
        engine.settle()
        table = general_trigram_path(engine.tokenizer.fingerprint)
        if table.exists():
            engine.use_table(table)
    except DraftlineError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{platform.machine()}, torch {torch.__version__}, {engine.name}, {engine.weights}")

    def show(number: int, block: Block) -> None:
        print(
            f"{(number + 1) * BLOCK:6} requests  {block.seconds:7.2f} s  {block.resident:8.1f} MB", flush=True
        )

    growth, slower = verdict(run(engine, max(2, args.requests // BLOCK), show))
    print(f"memory grew by {growth:.1f} MB, the last requests took {slower:.3f} of the first ones' time")
    return 1 if growth > MOST_GROWTH or slower > MOST_SLOWDOWN else 0


if __name__ == "__main__":
    sys.exit(main())
