"""Tokens per second of sampling texts side by side, for several numbers of texts and lengths.

    python tests/benchmarks/generation.py [--model NAME] [--weights int8] [--length 128] [--rounds 3]

What each number of texts gives is measured in turn, round after round, so that a busy moment hits all.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path

import torch

from engine.checkpoint import load_checkpoint
from engine.generation import sample_texts, slots_needed
from engine.reader import Reader
from engine.sampling import Sampler
from model_setup.store import resolve_model
from model_setup.writing import START, TEMPERATURE

TEXTS = (1, 8, 16, 32)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model")
    parser.add_argument("--weights", default="int8")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    checkpoint = load_checkpoint(resolve_model(args.model), args.weights)
    print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    source = checkpoint.tokenizer.encode(Path(__file__).read_text(encoding="utf-8"))
    starts = [source[at : at + START] for at in range(0, 8 * max(TEXTS), 8)]
    sampler = Sampler(TEMPERATURE)
    reader = Reader(checkpoint.transformer, slots_needed(starts, args.length))
    rates: dict[int, list[float]] = {number: [] for number in TEXTS}
    for _ in range(args.rounds):
        for number in TEXTS:
            began = time.perf_counter()
            texts = sample_texts(reader, starts[:number], args.length, sampler)
            rates[number].append(sum(map(len, texts)) / (time.perf_counter() - began))
    for number, measured in rates.items():
        print(f"{number:3} texts: " + "  ".join(f"{rate:6.1f}" for rate in measured) + "  tokens/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
