"""Rounding to int8: each row by itself, whatever is rounded with it."""

from __future__ import annotations

import pytest
import torch

from engine import int8_rounding
from engine.int8_rounding import round_weight


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("levels", [127, 64])
@pytest.mark.parametrize("at_once", [1, 100, 1 << 19])  # a row, two, all
def test_a_weights_integers_are_those_of_its_row_alone(monkeypatch, dtype, levels, at_once):
    weight = torch.randn(37, 50, generator=torch.Generator().manual_seed(1)).to(dtype)
    weight[3] = 0
    given = weight.clone()
    monkeypatch.setattr(int8_rounding, "_AT_ONCE", at_once)
    integers, steps = round_weight(weight, levels)
    assert torch.equal(weight, given)
    assert integers.dtype == torch.int8
    for row, whole, step in zip(given, integers, steps, strict=True):
        assert step == (row.float().abs().max().clamp_min(1e-12) / levels)
        assert torch.equal(whole, (row.float() / step).round().to(torch.int8))
    assert int(integers.abs().max()) == levels
