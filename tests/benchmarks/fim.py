"""Fill-in-the-middle on library files: plain against staged, token for token and second for second.

    python tests/benchmarks/fim.py FOLDER [--weights int8] [--prompts 20] [--tokens 48] [--table FILE]

FOLDER holds Python files that the trigram table has not seen. Each prompt is decoded plain and staged in
turn, both with the prompt's keys and values already in the cache, so that only decoding is timed.
"""

from __future__ import annotations

import argparse
import platform
import random
import statistics
import sys
import time
from pathlib import Path

import torch

from engine import Engine, SamplingParams, load
from model_setup.store import general_trigram_path, resolve_model

PREFIX_CHARACTERS = 1500
SUFFIX_CHARACTERS = 600


def fim_prompts(folder: Path, count: int, engine: Engine, seed: int = 0) -> list[tuple[list[int], list[int]]]:
    """(prompt ids, context ids) at ``count`` random places of files below ``folder``."""
    rng = random.Random(seed)
    files = sorted(path for path in folder.rglob("*.py") if path.stat().st_size > 4000)
    special, encode = engine.tokenizer.special, engine.tokenizer.encode
    prompts = []
    for path in rng.sample(files, count):
        text = path.read_text(encoding="utf-8", errors="replace")
        cursor = rng.randrange(len(text) // 4, len(text) * 3 // 4)
        prefix = encode(text[max(0, cursor - PREFIX_CHARACTERS) : cursor])
        suffix = encode(text[cursor : cursor + SUFFIX_CHARACTERS])
        begin, middle, end = (special[f"<|fim_{part}|>"] for part in ("prefix", "suffix", "middle"))
        prompts.append(([begin, *prefix, middle, *suffix, end], suffix + prefix))
    return prompts


def run(
    engine: Engine, prompt: list[int], context: list[int], tokens: int, mode: str
) -> tuple[list[int], float, int]:
    """The tokens, the seconds and the cycles of one decoding."""
    output: list[int] = []
    cycles = 0
    started = time.perf_counter()
    for cycle in engine.generate(prompt, SamplingParams(max_tokens=tokens, mode=mode), context_ids=context):
        output += cycle.tokens
        cycles += 1
    return output, time.perf_counter() - started, cycles


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
    for prompt, context in fim_prompts(args.folder, args.prompts, engine):
        run(engine, prompt, context, 1, "plain")  # prefill
        plain, plain_seconds, _ = run(engine, prompt, context, args.tokens, "plain")
        staged, staged_seconds, cycles = run(engine, prompt, context, args.tokens, "staged")
        different += plain != staged
        plain_rates.append(len(plain) / plain_seconds)
        staged_rates.append(len(staged) / staged_seconds)
        ratios.append(plain_seconds / staged_seconds)
        per_cycle.append(len(staged) / cycles)
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
