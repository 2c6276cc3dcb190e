"""The real model on real code: every mode writes plain decoding's text, token for token."""

from __future__ import annotations

import email
import http
import json
import logging
import os
import shutil
import unittest
import urllib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from engine import Engine, SamplingParams, load
from engine.cost_model import StepTimes
from engine.katz import write_table
from model_setup.benchmark_prompts import Prompt, humaneval_prompts
from tests.benchmarks.exactness import GREEDY, SAMPLED
from tests.benchmarks.prompts import decode, fim_prompts

pytestmark = pytest.mark.slow

PROMPTS = 10
HUMANEVAL_TOKENS, FIM_TOKENS = 16, 12
SEEDS, SAMPLED_TOKENS = 3, 12
LARGEST_FILE = 8_000  # bytes: reading the prompts is most of what these tests take
# Trees as large as they may get: the more rows, the more there is to go wrong
CHEAP_ROWS = StepTimes((1, 16, 32), (1.0, 1.2, 1.6))


def folder(package: ModuleType) -> Path:
    return Path(package.__path__[0])


@pytest.fixture(scope="module", autouse=True)
def threads() -> None:
    """As many as this process may have, instead of one for tiny models."""


@pytest.fixture(scope="module", params=["int8", "fp32"])
def engine(
    request: pytest.FixtureRequest, default_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Engine:
    engine = load(default_model, weights=request.param)
    engine._oracle.times = CHEAP_ROWS
    packages = (email, http, json, logging, unittest, urllib)
    files = [path for package in packages for path in sorted(folder(package).glob("*.py"))]
    texts = [path.read_text(encoding="utf-8") for path in files]
    documents = [np.array(ids, dtype=np.uint32) for ids in engine.tokenizer.encode_batch(texts)]
    table = tmp_path_factory.mktemp("table") / "table"
    write_table(table, documents, engine.tokenizer.vocab_size, engine.tokenizer.fingerprint)
    engine.use_table(table)
    return engine


def assert_nothing_is_lost(engine: Engine, prompts: list[Prompt], tokens: int) -> None:
    assert len(prompts) == PROMPTS
    different = []
    cycles = 0
    for prompt in prompts:
        plain = decode(engine, prompt, SamplingParams(tokens, mode="plain")).tokens
        assert len(plain) == tokens
        for params in GREEDY:
            decoded = decode(engine, prompt, replace(params, max_tokens=tokens))
            if decoded.tokens != plain:
                different.append((prompt.name, params.mode, plain, decoded.tokens))
            cycles += decoded.cycles
    assert different == []
    assert cycles < 0.8 * len(GREEDY) * PROMPTS * tokens  # else there was little to compare


def test_standard_and_staged_texts_of_humaneval_are_plain_texts(engine: Engine):
    prompts = humaneval_prompts(engine.tokenizer)
    assert len(prompts) == 164
    assert_nothing_is_lost(engine, prompts[:: len(prompts) // PROMPTS][:PROMPTS], HUMANEVAL_TOKENS)


def test_standard_and_staged_texts_of_library_files_are_plain_texts(engine: Engine, tmp_path: Path):
    for module in Path(os.__file__).parent.glob("*.py"):
        if module.stat().st_size < LARGEST_FILE:
            shutil.copy(module, tmp_path)
    assert_nothing_is_lost(engine, fim_prompts(tmp_path, PROMPTS, engine), FIM_TOKENS)


@pytest.mark.parametrize("engine", ["int8"], indirect=True)
def test_the_same_seed_gives_the_same_text_plain_and_staged(engine: Engine):
    """In all settings of temperature and filter."""
    different = []
    staged_cycles = 0
    for seed, prompt in enumerate(humaneval_prompts(engine.tokenizer)[:SEEDS]):
        for params in SAMPLED:
            params = replace(params, seed=seed, max_tokens=SAMPLED_TOKENS)
            staged = decode(engine, prompt, params)
            if staged.tokens != decode(engine, prompt, replace(params, mode="plain")).tokens:
                different.append(params)
            staged_cycles += staged.cycles
    assert different == []
    assert staged_cycles < 0.9 * SEEDS * len(SAMPLED) * SAMPLED_TOKENS
