"""What draft would be made on this machine, how long that takes, and whether it pays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.cost_model import StepTimes, expected_tokens
from engine.errors import DraftlineError
from engine.katz import read_counts
from engine.ngram_count import BITS
from engine.placement import placements
from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.carve import plan_carving, read_size
from model_setup.draft_start import Kind, find_sibling
from model_setup.recall import WIDTH

SECONDS = {"cuda": 480.0, "cpu": 1200.0}  # of training, asking the oracle included
# How often the token of the oracle, Qwen2.5-Coder-0.5B, was among the four best, in 3052 held-out places of
# libcst: those of the repository's own table, and those or the draft's, which was carved and trained for 20
# minutes on two cores (tests/benchmarks/draft_recall.py). With the table of code in general, 0.335 and 0.636.
# The lookup in the prompt is left out here. With it decoding in float32, at 8 cursors in held-out files, was
# 2.72 times as fast as plain with that draft, and 3.01 times without, before `Draft` weighed the table too.
DRAFT2, BOTH = 0.522, 0.664
LEAST_GAIN = 1.1  # times faster that decoding has to become for a draft to be worth its making and its memory
# Qwen2.5-Coder-0.5B in int8 on two cores of an AMD EPYC, seconds
CPU_TIMES = StepTimes((1, 4, 8, 16), (0.037, 0.041, 0.048, 0.079))
# A GPU waits for the weights: more rows cost nothing.
GPU_TIMES = StepTimes((1, 64), (1.0, 1.0))


@dataclass(frozen=True)
class DraftPlan:
    """device: where it would be trained. kind, layers, tokens, parameters: of the draft; start: the directory
    of the small model it would be made from, else it is carved. oracle_parameters: as ``parameters``, that a
    pass reads. seconds: of training. gain: how many times faster decoding is expected to become. pays:
    whether that is worth it; why: the same in words, a clause."""

    device: str
    kind: Kind
    start: Path | None
    layers: int
    tokens: int
    parameters: int
    oracle_parameters: int
    seconds: float
    gain: float
    pays: bool
    why: str


def draft_plan(oracle: Path, device: str = "auto", times: StepTimes | None = None) -> DraftPlan:
    """Plan the draft of the model directory ``oracle``; nothing is loaded.

    times: of the oracle's pass by its rows, if an engine has measured them here (`Engine.step_times`).

    Raises:
        DraftlineError: ``oracle`` is not a model that the engine runs.
    """
    tokenizer = Tokenizer(oracle / "tokenizer.json")
    where = placements(device, "auto")[0].device
    measured = times is not None
    if times is None:
        times = CPU_TIMES if where == "cpu" else GPU_TIMES
    whole = read_size(oracle).whole
    sibling = find_sibling(oracle, tokenizer)
    kind: Kind = "carved"
    if sibling is None:
        plan = plan_carving(oracle, _counts(tokenizer))
        layers, tokens, parameters = len(plan.layers), plan.tokens, plan.parameters
    else:
        kind, small = "sibling", read_size(sibling)
        layers, tokens, parameters = small.layers, tokenizer.vocab_size, small.whole
    gain = expected_gain(parameters / whole, times)
    by = "" if where != "cpu" or measured else ", by the times of two EPYC cores,"
    expected = f"decoding with it is expected{by} to be {gain:.2f} times as fast as with the trigram alone"
    pays, why = gain >= LEAST_GAIN, f"{expected}, and it is worth its training from {LEAST_GAIN} on"
    if where != "cpu":
        pays, why = (
            True,
            f"on a GPU it is trained, though that was not measured on one, and {expected}",
        )
    return DraftPlan(where, kind, sibling, layers, tokens, parameters, whole, SECONDS[where], gain, pays, why)


def expected_gain(share: float, times: StepTimes) -> float:
    """How many times faster decoding becomes by a draft whose pass reads ``share`` of the bytes of the
    oracle's.

    Leviathan et al. 2022, theorem 3.8, for a tree of which WIDTH guesses stand for each token: those of its
    first levels cost a pass of the draft each, those below are draft2's, which cost nothing but their rows.
    """
    deepest = (times.rows[-1] - 1) // WIDTH

    def rate(levels: int, below: int) -> float:
        tokens = expected_tokens(BOTH, levels) + BOTH**levels * (expected_tokens(DRAFT2, below) - 1)
        return tokens / (levels * share + times((levels + below) * WIDTH + 1) / times(1))

    without = max(rate(0, below) for below in range(deepest + 1))
    return (
        max(rate(levels, below) for levels in range(deepest + 1) for below in range(deepest + 1 - levels))
        / without
    )


def _counts(tokenizer: Tokenizer) -> NDArray[np.float64]:
    """How often each token occurs in code in general, if that was counted; else as if all were alike."""
    try:
        general = read_counts(store.general_trigram_path(tokenizer.fingerprint), tokenizer.fingerprint)
    except DraftlineError:
        return np.ones(tokenizer.vocab_size)
    counts = np.bincount(general.keys >> 2 * BITS, weights=general.counts, minlength=tokenizer.vocab_size)
    return counts.astype(np.float64)
