"""One engine through random programs of everything its callers may do, in any order: each text is the plain
text of an engine that was asked nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine import CancelToken, Cycle, DraftlineError, Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.katz import write_table
from tests.engine.tiny_models import SIZES, TOKENS, write_model

CONTEXT = SIZES["max_position_embeddings"]
TIMES = [
    StepTimes((1, 32), (1.0, 1.0)),
    StepTimes((1, 8, 32), (1.0, 1.3, 3.0)),
    StepTimes((1, 32), (1e-9, 1e-6)),
]

Plain = Callable[[tuple[int, ...], int, float, int, float, int], list[int]]


@pytest.fixture(scope="module", params=["fp32", "int8"])
def engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Engine, Plain, Path]:
    """The engine under attack, plain text by (prompt, length, sampling), and a table that guesses well."""
    folder = tmp_path_factory.mktemp("models")
    oracle = write_model(folder / "oracle")
    draft = write_model(folder / "draft", seed=5, num_hidden_layers=1)
    alone = load(oracle, weights=request.param)

    @cache
    def plain(
        prompt: tuple[int, ...], length: int, temperature: float, top_k: int, top_p: float, seed: int
    ) -> list[int]:
        params = SamplingParams(length, temperature, top_k, top_p, seed, mode="plain")
        alone._oracle._reader.keep([])  # as good as fresh
        return [token for cycle in alone.generate(prompt, params) for token in cycle.tokens]

    documents = [np.array(plain((token,), 60, 0.0, 0, 1.0, 0), dtype=np.uint32) for token in range(12)]
    write_table(folder / "table", documents, TOKENS, alone.tokenizer.fingerprint)
    return load(oracle, draft=draft, weights=request.param), plain, folder / "table"


@pytest.mark.parametrize("program", range(4))
def test_any_program_of_requests_writes_plain_text(engines: tuple[Engine, Plain, Path], program: int):
    engine, plain, table = engines
    rng = random.Random(program)
    prompts: list[tuple[int, ...]] = [(1,)]
    dropped: list[Iterator[Cycle]] = []
    for _ in range(25):
        prompt = _next_prompt(rng, prompts)
        prompts.append(prompt)
        engine._oracle.times = rng.choice(TIMES)
        if rng.random() < 0.2:
            engine.use_table(rng.choice([table, None]))
        if rng.random() < 0.15:
            _refused(engine, rng)
        length = rng.choice([0, 1, 2, 7, 20, 33])
        sampling: dict[str, Any] = {
            "temperature": rng.choice([0.0, 0.0, 0.3, 1.0, 1.5]),
            "top_k": rng.choice([0, 0, 1, 50]),
            "top_p": rng.choice([1.0, 1.0, 0.9, 0.01]),
            "seed": rng.choice([0, 1, -3, 2**70]),
        }
        expected = plain(prompt, length, *sampling.values())
        stop_ids = tuple(rng.sample(expected, 1)) if expected and rng.random() < 0.3 else ()
        end = next((at for at, token in enumerate(expected) if token in stop_ids), length)
        how = _mode(rng, sampling["temperature"], engine)
        params = SamplingParams(length, **sampling, stop_ids=stop_ids, **how)
        cancel = CancelToken()
        context = rng.choice([None, [], list(prompt[:5]), expected])
        leave_after = rng.choice([None, None, None, 0, 1, 3])
        written: list[int] = []
        generation = engine.generate(prompt, params, cancel, context)
        for number, cycle in enumerate(generation):
            assert len(cycle.tokens) == len(cycle.origins) <= cycle.rows <= max(1, length)
            written += cycle.tokens
            if number == leave_after:
                leave = rng.choice(["cancel", "close", "drop"])
                if leave == "cancel":
                    cancel.cancel()
                elif leave == "close":
                    generation.close()
                else:
                    break
        for old in dropped:  # the last request has taken the cache from them
            with pytest.raises((RuntimeError, StopIteration)):
                next(old)
        dropped = [generation]
        if leave_after is None:
            assert written == expected[:end], (program, params)
        else:
            assert written == expected[: len(written)], (program, params)


def _next_prompt(rng: random.Random, earlier: list[tuple[int, ...]]) -> tuple[int, ...]:
    """Often like an earlier one: the same, cut, changed in one place, or with something behind it."""
    longest = CONTEXT - 40
    new = tuple(rng.randrange(rng.choice([4, TOKENS])) for _ in range(rng.randrange(1, 60)))
    old = rng.choice(earlier)
    at = rng.randrange(len(old))
    changed = (*old[:at], rng.randrange(TOKENS), *old[at + 1 :])
    return rng.choice([new, old, old[: at + 1], changed, old + new, (*old, *old), old[-longest:]])[:longest]


def _mode(rng: random.Random, temperature: float, engine: Engine) -> dict[str, Any]:
    """Standard decoding writes plain decoding's very text where it is greedy."""
    if temperature > 0 or rng.random() < 0.6:
        return {"mode": rng.choice(["plain", "staged", "staged"])}
    approximations = ["draft", "lookup", "random"]
    if engine._table is not None:
        approximations += ["trigram", "bigram", "unigram"]
    return {"mode": "standard", "approximation": rng.choice(approximations), "gamma": rng.choice([1, 4, 9])}


def _refused(engine: Engine, rng: random.Random) -> None:
    """A request that cannot be met changes nothing for those after it."""
    prompt, length = rng.choice([((), 5), ((TOKENS,), 5), ((1,) * CONTEXT, 1)])
    with pytest.raises(DraftlineError):
        next(engine.generate(prompt, SamplingParams(length)))
