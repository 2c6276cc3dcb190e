"""On a CUDA GPU: captured passes are the eager ones, and staged decoding writes plain decoding's text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from engine import SamplingParams, load
from engine.checkpoint import load_checkpoint
from engine.device_reader import DeviceReader
from engine.engine import Engine
from engine.placement import WEIGHTS, Placement
from engine.request import CancelToken
from tests.engine.tiny_models import TOKENS, load_tiny, same, write_model

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")

PROMPT = [(7 * i * i) % TOKENS for i in range(150)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), seed=1)


def readers(folder: Path, weights: str) -> list[DeviceReader]:
    """Eager and captured."""
    placement = Placement("cuda", weights)
    transformer = load_checkpoint(folder, weights, device="cuda").transformer
    return [DeviceReader(transformer, 400, placement.cache_dtype, graphs) for graphs in (False, True)]


@pytest.mark.parametrize("weights", WEIGHTS)
@torch.inference_mode()
def test_a_captured_pass_is_an_eager_pass(folder: Path, weights: str):
    answers = []
    for reader in readers(folder, weights):
        assert reader.read(PROMPT[:-1], CancelToken())
        visible = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 0, 1]], dtype=torch.bool)
        first = [row.logits for row in reader.rows([PROMPT[-1], 4, 5], [149, 150, 150], visible)]
        reader.commit([149, 151], [PROMPT[-1], 5])
        (row,) = reader.rows([9], [151], None)
        answers.append([torch.from_numpy(logits) for logits in (*first, row.logits)])
    assert same(*answers)


@torch.inference_mode()
def test_fp32_is_what_the_cpu_computes(folder: Path):
    from engine.reader import Reader

    on_cpu = Reader(load_tiny(folder), 400)
    _, on_gpu = readers(folder, "fp32")
    logits = []
    for reader in (on_cpu, on_gpu):
        reader.read(PROMPT[:-1], CancelToken())
        logits.append(reader.rows(PROMPT[-1:], [len(PROMPT) - 1], None)[0].logits)
    assert np.linalg.norm(logits[0] - logits[1]) < 1e-4 * np.linalg.norm(logits[0])


@pytest.fixture(scope="module", params=WEIGHTS)
def engine(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    small = write_model(tmp_path_factory.mktemp("small"), seed=2, num_hidden_layers=1)
    return load(folder, draft=small, device="cuda", weights=request.param)


def text(engine: Engine, prompt: list[int], **params) -> list[int]:
    cycles = engine.generate(prompt, SamplingParams(max_tokens=60, **params))
    return [token for cycle in cycles for token in cycle.tokens]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_staged_text_is_plain_text(engine: Engine, temperature: float):
    for start in range(10):
        prompt = PROMPT[start:]
        plain = text(engine, prompt, mode="plain", temperature=temperature)
        assert text(engine, prompt, temperature=temperature) == plain
    assert engine.device == "cuda"


def test_a_cancelled_request_leaves_the_engine_as_good_as_fresh(engine: Engine):
    expected = text(engine, PROMPT, mode="plain")
    cancel = CancelToken()
    for _ in engine.generate(PROMPT[::-1], SamplingParams(60), cancel):
        cancel.cancel()
    assert text(engine, PROMPT) == expected
