"""Products of rows that never influence each other: float32, and int8 exact in its integers."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import DraftlineError
from engine.linear import Fp32Linear, Int8Linear, activation_levels, check_processor

KINDS = [Fp32Linear, Int8Linear]
LEVELS = activation_levels()


def integers(seed: int, *shape: int, most: int) -> Tensor:
    """Random float32 integers from -most to most; each row has one of the largest size."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(-most, most + 1, shape, generator=generator).float()
    values[:, 0] = most
    return values


def assert_exact(ours: Tensor, x: Tensor, weight: Tensor, scale: float = 1.0) -> None:
    """ours is x @ weight.T * scale but for the rounding of a few scales: no integer in the sum is wrong."""
    theirs = x.double() @ weight.double().T * scale
    torch.testing.assert_close(ours.double(), theirs, rtol=4e-7, atol=0)


def test_the_activation_levels_are_those_of_a_product_with_or_without_saturation():
    assert LEVELS in (127, 63)


@settings(max_examples=50)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 120),  # sums below 2e6, where an error of 1 would show
    outs=st.integers(1, 70),
    seed=st.integers(0, 2**32),
    exponents=st.tuples(st.integers(-40, 40), st.integers(-20, 20)),
)
def test_int8_products_are_exact_where_the_numbers_are_integers_times_a_scale(
    rows, width, outs, seed, exponents
):
    x, weight = integers(seed, rows, width, most=LEVELS), integers(seed + 1, outs, width, most=127)
    x_scale, weight_scale = (2.0**exponent for exponent in exponents)
    ours = Int8Linear(weight * weight_scale, None)(x * x_scale)
    assert_exact(ours, x, weight, x_scale * weight_scale)


@pytest.mark.parametrize("width", [2, 63, 896, 4864, 18944])
def test_the_largest_numbers_do_not_saturate(width):
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).repeat(1, (width + 1) // 2)
    x, weight = signs[:, :width] * LEVELS, signs[:, :width] * 127
    assert_exact(Int8Linear(weight, None)(x), x, weight)


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), biased=st.booleans())
def test_int8_is_within_the_rounding_of_its_levels(seed, rows, biased):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 200, generator=generator), torch.randn(30, 200, generator=generator)
    bias = torch.randn(30, generator=generator) if biased else None
    theirs = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    # half a level for each factor, times the other factor, summed over the width
    x_step = x.abs().amax(1, keepdim=True) / LEVELS
    weight_step = weight.abs().amax(1) / 127
    x_sum, weight_sum = x.abs().sum(1, keepdim=True), weight.abs().sum(1)
    bound = x_step / 2 * weight_sum + weight_step / 2 * x_sum + 200 * x_step * weight_step / 4
    assert bool(((Int8Linear(weight, bias)(x) - theirs).abs() <= bound + 1e-4).all())


@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), biased=st.booleans())
def test_fp32_is_float32s_own_product(seed, rows, biased):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 200, generator=generator), torch.randn(30, 200, generator=generator)
    bias = torch.randn(30, generator=generator) if biased else None
    theirs = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(Fp32Linear(weight, bias)(x).double(), theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("width", "outs"), [(97, 64), (896, 1152), (4864, 896)])
def test_a_rows_result_does_not_depend_on_the_rows_around_it(kind, width, outs):
    generator = torch.Generator().manual_seed(0)
    linear = kind(torch.randn(outs, width, generator=generator), torch.randn(outs, generator=generator))
    x = torch.randn(130, width, generator=generator) * torch.logspace(-3, 3, 130)[:, None]
    alone = torch.cat([linear(row[None]) for row in x])
    for rows in (2, 3, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64, 128):
        assert torch.equal(linear(x[:rows]), alone[:rows]), f"{rows} rows"
        assert torch.equal(linear(x[-rows:]), alone[-rows:]), f"{rows} rows"
    order = torch.randperm(len(x), generator=generator)
    assert torch.equal(linear(x[order]), alone[order])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bias", [None, torch.arange(20.0)])
def test_a_row_of_zeros_gives_the_bias(kind, bias):
    weight = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(3, 50)
    x[1] = 1.0
    out = kind(weight, bias)(x)
    for row in (0, 2):
        assert torch.equal(out[row], torch.zeros(20) if bias is None else bias)


@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_row_of_zeros_gives_zero(kind):
    weight = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    weight[7] = 0
    out = kind(weight, None)(torch.ones(4, 50))
    assert torch.equal(out[:, 7], torch.zeros(4))
    assert bool(out[:, 6].all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-8, 1e-4, 1.0, 1e4, 1e20])
def test_tiny_and_huge_rows_keep_their_direction(kind, size):
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(3, 50, generator=generator), torch.randn(20, 50, generator=generator)
    linear = kind(weight, None)
    torch.testing.assert_close(linear(x * size) / size, linear(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_a_row_that_is_not_finite_disturbs_no_other(kind, wrong):
    generator = torch.Generator().manual_seed(0)
    x, linear = torch.randn(9, 50, generator=generator), kind(torch.randn(20, 50, generator=generator), None)
    sound = linear(x)
    x[4, 3] = wrong
    out = linear(x)
    others = [row for row in range(9) if row != 4]
    assert torch.equal(out[others], sound[others])
    assert not bool(torch.isfinite(out[4]).any())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_any_floating_dtype_are_taken(kind, dtype):
    weight = torch.randn(20, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    x, bias = torch.ones(2, 50), torch.ones(20, dtype=dtype)
    assert torch.equal(kind(weight, bias)(x), kind(weight.float(), bias.float())(x))


def test_weight_bytes_are_those_read_for_one_product():
    weight = torch.randn(20, 50)
    assert Fp32Linear(weight, None).weight_bytes == 20 * 50 * 4
    assert Int8Linear(weight, None).weight_bytes == 20 * 50


@pytest.mark.parametrize("kind", [Fp32Linear, Int8Linear])
@pytest.mark.parametrize("error", [AttributeError, NotImplementedError, RuntimeError])
def test_a_processor_without_the_packed_products_is_refused_in_one_sentence(monkeypatch, kind, error):
    check_processor(kind)

    def missing(self, x):
        raise error("not implemented for this packed parameter type")

    monkeypatch.setattr(kind, "__call__", missing)
    with pytest.raises(DraftlineError, match="x86-64") as raised:
        check_processor(kind)
    assert "\n" not in str(raised.value)
