"""What rounding the weights costs: perplexity on code, and how often the likeliest token stays the same.

    python -m tests.benchmarks.quality FOLDER [--model NAME] [--windows 40]

FOLDER holds Python files that the model has not seen, as far as that can be known. Windows of 512 tokens are
read at random places; every token but the first of each is predicted from the true text before it.
"""

from __future__ import annotations

import argparse
import math
import platform
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional

from engine.checkpoint import Checkpoint, Weights, load_checkpoint
from engine.linear import keeps_rows_apart
from engine.linear_packed import Bf16Linear, Int8Linear, weight_levels
from engine.tokenizer import Tokenizer
from model_setup.store import resolve_model

WINDOW = 512
HEAD_ROWS = 128  # whose logits are held at once


@dataclass(frozen=True)
class Reading:
    """nats: of each predicted token, [predictions] float64. likeliest: [predictions] int64."""

    nats: Tensor
    likeliest: Tensor


def code_windows(folder: Path, tokenizer: Tokenizer, count: int) -> list[Tensor]:
    """``count`` random windows of as many files below ``folder``."""
    rng = random.Random(0)
    files = sorted(path for path in folder.rglob("*.py") if path.stat().st_size > 4000)
    rng.shuffle(files)
    windows: list[Tensor] = []
    for path in files:
        tokens = tokenizer.encode(path.read_text(encoding="utf-8", errors="replace")[:50_000])
        if len(tokens) >= WINDOW:
            start = rng.randrange(len(tokens) - WINDOW + 1)
            windows.append(torch.tensor(tokens[start : start + WINDOW]))
        if len(windows) == count:
            return windows
    sys.exit(f"{folder} has only {len(windows)} Python files of {WINDOW} tokens or more, not {count}.")


@torch.inference_mode()
def read(checkpoint: Checkpoint, windows: list[Tensor]) -> Reading:
    transformer = checkpoint.transformer
    visible = torch.ones(WINDOW, WINDOW, dtype=torch.bool).tril()
    cache = transformer.new_cache(WINDOW)
    nats, likeliest = [], []
    for window in windows:
        cache.truncate(0)
        hidden = transformer.forward(window, torch.arange(WINDOW), cache, visible)
        for start in range(0, WINDOW - 1, HEAD_ROWS):
            logits = transformer.logits(hidden[start : min(start + HEAD_ROWS, WINDOW - 1)])
            targets = window[start + 1 : start + 1 + len(logits)]
            nats.append(functional.cross_entropy(logits, targets, reduction="none").double())
            likeliest.append(logits.argmax(dim=1))
    return Reading(torch.cat(nats), torch.cat(likeliest))


def read_as(weights: Weights, levels: int, path: Path, windows: list[Tensor]) -> Reading:
    """Load the model with weights of a kind, int8 ones rounded to so many levels, and read."""
    with mock.patch("engine.linear_packed.weight_levels", return_value=levels):
        return read(load_checkpoint(path, weights), windows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--windows", type=int, default=40)
    args = parser.parse_args()

    path = resolve_model(args.model)
    reference = load_checkpoint(path, "fp32")
    windows = code_windows(args.folder, reference.tokenizer, args.windows)
    print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{path.name}, {len(windows)} windows, {len(windows) * (WINDOW - 1)} predictions")
    exact = read(reference, windows)
    del reference
    report("fp32", exact, exact)
    packed = keeps_rows_apart(Int8Linear)
    if not packed or weight_levels() == 127:
        report("int8", read_as("int8", 127, path, windows), exact)
    if packed:
        report("int8, weights of 64 levels: no VNNI", read_as("int8", 64, path, windows), exact)
    if keeps_rows_apart(Bf16Linear):
        report("bf16", read_as("bf16", 127, path, windows), exact)
    return 0


def report(name: str, reading: Reading, exact: Reading) -> None:
    more = reading.nats - exact.nats
    error = more.std() / math.sqrt(len(more))
    same = (reading.likeliest == exact.likeliest).double().mean()
    print(
        f"{name:36} perplexity {reading.nats.mean().exp():.4f}, "
        f"{math.expm1(more.mean()):+.2%} ± {error:.2%}; same likeliest token {same:.2%}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
