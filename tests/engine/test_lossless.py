"""The real model on real code: staged decoding writes plain decoding's text, token for token."""

from __future__ import annotations

import email
import http
import json
import logging
import os
import shutil
import unittest
import urllib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from engine import Engine, load
from engine.cost_model import StepTimes
from engine.katz import write_table
from tests.benchmarks.fim import fim_prompts, run

pytestmark = pytest.mark.slow

PROMPTS, TOKENS = 20, 48
# Trees as large as they may get: the more rows, the more there is to go wrong
CHEAP_ROWS = StepTimes((1, 16, 32), (1.0, 1.2, 1.6))


def folder(package: ModuleType) -> Path:
    return Path(package.__path__[0])


@pytest.fixture(scope="module", autouse=True)
def threads() -> None:
    """As many as there are, instead of one for tiny models."""


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


def test_staged_text_is_plain_text_on_library_files(engine: Engine, tmp_path: Path):
    for module in Path(os.__file__).parent.glob("*.py"):
        shutil.copy(module, tmp_path)
    different = []
    plain_tokens = staged_cycles = 0
    for index, (prompt, context) in enumerate(fim_prompts(tmp_path, PROMPTS, engine)):
        plain, _, _ = run(engine, prompt, context, TOKENS, "plain")
        staged, _, cycles = run(engine, prompt, context, TOKENS, "staged")
        if staged != plain:
            different.append((index, plain, staged))
        plain_tokens += len(plain)
        staged_cycles += cycles
    assert different == []
    assert plain_tokens == PROMPTS * TOKENS
    assert staged_cycles < 0.7 * plain_tokens  # else there was little to compare
