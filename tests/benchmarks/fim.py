"""Fill-in-the-middle on library files: plain against staged, token for token and second for second.

    python -m tests.benchmarks.fim FOLDER [--weights int8] [--prompts 20] [--tokens 48] [--table FILE]

FOLDER holds Python files that the trigram table has not seen. Each prompt is decoded plain and staged in
turn, both with the prompt's keys and values already in the cache, so that only decoding is timed.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from pathlib import Path

import torch

from engine import SamplingParams, load
from model_setup.store import general_trigram_path, resolve_model
from tests.benchmarks.prompts import decode, fim_prompts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", default="int8")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--table", type=Path)
    args = parser.parse_args()

    engine = load(resolve_model(None), weights=args.weights)
    engine.use_table(args.table or general_trigram_path(engine.tokenizer.fingerprint))
    print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{engine.name}, {engine.weights}, loaded in {engine.load_seconds:.1f} s")
    times = engine.step_times
    print(
        "step ms by rows:",
        ", ".join(f"{r}: {s * 1e3:.1f}" for r, s in zip(times.rows, times.seconds, strict=True)),
    )

    plain_rates, staged_rates, ratios, per_cycle = [], [], [], []
    different = 0
    for prompt in fim_prompts(args.folder, args.prompts, engine):
        decode(engine, prompt, SamplingParams(max_tokens=1, mode="plain"))  # the prompt is read
        plain = decode(engine, prompt, SamplingParams(max_tokens=args.tokens, mode="plain"))
        staged = decode(engine, prompt, SamplingParams(max_tokens=args.tokens, mode="staged"))
        different += plain.tokens != staged.tokens
        plain_rates.append(len(plain.tokens) / plain.seconds)
        staged_rates.append(len(staged.tokens) / staged.seconds)
        ratios.append(plain.seconds / staged.seconds)
        per_cycle.append(len(staged.tokens) / staged.cycles)
    for name, values in (
        ("plain tok/s", plain_rates),
        ("staged tok/s", staged_rates),
        ("staged / plain", ratios),
        ("tokens per cycle", per_cycle),
    ):
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name:18} minimum {low:6.2f}   median {middle:6.2f}   maximum {high:6.2f}")
    plain_total = len(plain_rates) / sum(1 / rate for rate in plain_rates)
    staged_total = len(staged_rates) / sum(1 / rate for rate in staged_rates)
    print(
        f"all prompts: plain {plain_total:.1f} tok/s, staged {staged_total:.1f}, "
        f"ratio {staged_total / plain_total:.2f}"
    )
    print(f"texts that differ: {different} of {args.prompts}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
