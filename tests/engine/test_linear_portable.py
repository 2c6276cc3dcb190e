"""Products of ordinary float32 matrix products, and an engine that has no others."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import SamplingParams, load
from engine.cost_model import StepTimes
from engine.linear import CPU_KINDS, keeps_rows_apart
from engine.linear_packed import Int8Linear, weight_levels
from engine.linear_portable import EXACT_WIDTH, PortableFp32Linear, PortableInt8Linear
from tests.engine.tiny_models import write_model

PORTABLE = {"fp32": PortableFp32Linear, "int8": PortableInt8Linear}
PACKED_INT8 = pytest.mark.skipif(not keeps_rows_apart(Int8Linear), reason="no packed int8 product here")


def test_no_partial_sum_exceeds_what_float32_holds():
    assert EXACT_WIDTH * 127 * 127 < 2**24


@PACKED_INT8
@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 40),
    width=st.sampled_from([1, 97, 896, 1023, 1024, 1025, 2048, 4864]),
    outs=st.sampled_from([1, 70, 512, 513]),
    size=st.floats(-30, 30),
    biased=st.booleans(),
)
def test_int8_is_bit_for_bit_what_packed_products_give(seed, rows, width, outs, size, biased):
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(outs, width, generator=generator)
    bias = torch.randn(outs, generator=generator) if biased else None
    x = torch.randn(rows, width, generator=generator) * 10**size
    ours = PortableInt8Linear(weight, bias, weight_levels())(x)
    assert torch.equal(ours, Int8Linear(weight, bias)(x))


@PACKED_INT8
def test_int8_rounds_halves_as_packed_products_do():
    halves = torch.arange(-126.5, 127.0)
    x = torch.cat([torch.tensor([127.0]), halves])[None] * torch.tensor([[1.0], [0.1], [3e4]])
    weight = torch.eye(len(halves) + 1)
    assert torch.equal(PortableInt8Linear(weight, None, weight_levels())(x), Int8Linear(weight, None)(x))


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_int8_is_exact_also_where_float32_products_may_round_their_factors(precision):
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).repeat(1, 2432)
    x, weight = signs * 127, torch.cat([signs * 127, torch.randint(-127, 128, (30, 4864)).float()])
    linear = PortableInt8Linear(weight, None)
    expected = linear(x)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        assert torch.equal(linear(x), expected)
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


def texts(model: Path, weights: str, mode: str) -> list[list[int]]:
    engine = load(model, weights=weights)
    engine._oracle.times = StepTimes((1, 32), (1.0, 1.0))  # every guess seems to pay
    prompts = [[7, 8, 9, 7, 8, 9, 7, 8], [1], list(range(60))]
    return [
        [
            token
            for cycle in engine.generate(prompt, SamplingParams(max_tokens=40, mode=mode))
            for token in cycle.tokens
        ]
        for prompt in prompts
    ]


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_an_engine_with_portable_products_loses_nothing_by_guessing(monkeypatch, model, weights):
    monkeypatch.setitem(CPU_KINDS, weights, (PORTABLE[weights],))
    plain = texts(model, weights, "plain")
    assert texts(model, weights, "staged") == plain
    assert all(len(text) == 40 for text in plain)


@PACKED_INT8
def test_portable_and_packed_int8_write_the_same_text(monkeypatch, model):
    if weight_levels() != 127:
        pytest.skip("packed weights have fewer levels here")
    packed = texts(model, "int8", "staged")
    monkeypatch.setitem(CPU_KINDS, "int8", (PortableInt8Linear,))
    assert texts(model, "int8", "staged") == packed
