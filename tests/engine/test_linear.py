"""Products of rows that never influence each other: float32, bfloat16, and int8 exact in its integers."""

from __future__ import annotations

import math
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from engine.errors import DraftlineError
from engine.int8_rounding import LEVELS
from engine.linear import CPU_KINDS, choose_linear, keeps_rows_apart
from engine.linear_packed import Bf16Linear, Fp32Linear, Int8Linear, weight_levels
from engine.linear_portable import PortableFp32Linear, PortableInt8Linear

FLOATS = [Fp32Linear, PortableFp32Linear]
INT8S = [Int8Linear, PortableInt8Linear]
KINDS = [*FLOATS, *INT8S]  # which some processor lacks are skipped there
WEIGHT_LEVELS = weight_levels() if keeps_rows_apart(Int8Linear) else 127


@pytest.fixture(autouse=True)
def runs_here(request: pytest.FixtureRequest):
    """Skip a kind of product that this processor does not have."""
    kind = request.node.callspec.params.get("kind") if hasattr(request.node, "callspec") else None
    if kind is not None and not keeps_rows_apart(kind):
        pytest.skip(f"no {kind.__name__} on this processor")


@pytest.fixture
def forget_choices():
    """Try every product again, now and after the test."""
    keeps_rows_apart.cache_clear()
    yield
    keeps_rows_apart.cache_clear()


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


def test_the_weight_levels_are_those_of_a_product_with_or_without_saturation():
    assert WEIGHT_LEVELS in (127, 64)


def test_no_pair_of_products_with_64_levels_exceeds_16_bits():
    assert 2 * (2 * LEVELS + 1) * 64 < 2**15


@pytest.mark.parametrize("kind", INT8S)
@settings(max_examples=50)
@given(
    rows=st.integers(1, 40),
    width=st.integers(1, 120),  # sums below 2e6, where an error of 1 would show
    outs=st.integers(1, 70),
    seed=st.integers(0, 2**32),
    exponents=st.tuples(st.integers(-40, 40), st.integers(-20, 20)),
)
def test_int8_products_are_exact_where_the_numbers_are_integers_times_a_scale(
    kind, rows, width, outs, seed, exponents
):
    levels = WEIGHT_LEVELS if kind is Int8Linear else 127
    x, weight = integers(seed, rows, width, most=LEVELS), integers(seed + 1, outs, width, most=levels)
    x_scale, weight_scale = (2.0**exponent for exponent in exponents)
    ours = kind(weight * weight_scale, None)(x * x_scale)
    assert_exact(ours, x, weight, x_scale * weight_scale)


@pytest.mark.parametrize("kind", INT8S)
@pytest.mark.parametrize("width", [2, 63, 896, 1024, 1025, 4864, 18944])
def test_the_largest_numbers_do_not_saturate(kind, width):
    signs = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]).repeat(1, (width + 1) // 2)
    x, weight = signs[:, :width] * LEVELS, signs[:, :width] * 127
    assert_exact(kind(weight, None)(x), x, weight)


@pytest.mark.parametrize("kind", [Int8Linear])
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), outs=st.integers(2, 40), at_once=st.integers(1, 40))
def test_a_matrix_packed_in_pieces_gives_what_it_gives_as_a_whole(kind, seed, outs, at_once):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(5, 64, generator=generator), torch.randn(outs, 64, generator=generator)
    bias = torch.randn(outs, generator=generator)
    with mock.patch("engine.linear_packed._MOST_AT_ONCE", at_once):
        in_pieces = kind(weight, bias)
    assert torch.equal(in_pieces(x), kind(weight, bias)(x))


@pytest.mark.parametrize("kind", INT8S)
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), biased=st.booleans())
def test_int8_is_within_the_rounding_of_its_levels(kind, seed, rows, biased):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 200, generator=generator), torch.randn(30, 200, generator=generator)
    bias = torch.randn(30, generator=generator) if biased else None
    theirs = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    # half a level for each factor, times the other factor, summed over the width
    x_step = x.abs().amax(1, keepdim=True) / LEVELS
    weight_step = weight.abs().amax(1) / (WEIGHT_LEVELS if kind is Int8Linear else 127)
    x_sum, weight_sum = x.abs().sum(1, keepdim=True), weight.abs().sum(1)
    bound = x_step / 2 * weight_sum + weight_step / 2 * x_sum + 200 * x_step * weight_step / 4
    assert bool(((kind(weight, bias)(x) - theirs).abs() <= bound + 1e-4).all())


@pytest.mark.parametrize("kind", FLOATS)
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32), rows=st.integers(1, 20), biased=st.booleans())
def test_fp32_is_float32s_own_product(kind, seed, rows, biased):
    generator = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, 200, generator=generator), torch.randn(30, 200, generator=generator)
    bias = torch.randn(30, generator=generator) if biased else None
    theirs = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    torch.testing.assert_close(kind(weight, bias)(x).double(), theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", [Bf16Linear])
@pytest.mark.parametrize("bias", [None, torch.arange(30.0)])
def test_bf16_is_the_product_of_rounded_factors(kind, bias):
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(9, 200, generator=generator), torch.randn(30, 200, generator=generator)
    theirs = x.bfloat16().double() @ weight.bfloat16().double().T
    ours = kind(weight, bias)(x).double() - (0 if bias is None else bias.double())
    torch.testing.assert_close(ours, theirs, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("kind", [*KINDS, Bf16Linear])
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


@pytest.mark.parametrize("kind", [*KINDS, Bf16Linear])
@pytest.mark.parametrize("bias", [None, torch.arange(20.0)])
def test_a_row_of_zeros_gives_the_bias(kind, bias):
    weight = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    x = torch.zeros(3, 50)
    x[1] = 1.0
    out = kind(weight, bias)(x)
    for row in (0, 2):
        assert torch.equal(out[row], torch.zeros(20) if bias is None else bias)


@pytest.mark.parametrize("kind", [*KINDS, Bf16Linear])
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


@pytest.mark.parametrize("kind", [*KINDS, Bf16Linear])
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
    for kind in filter(keeps_rows_apart, FLOATS):
        assert kind(weight, None).weight_bytes == 20 * 50 * 4
    for kind in filter(keeps_rows_apart, INT8S):
        assert kind(weight, None).weight_bytes == 20 * 50
    if keeps_rows_apart(Bf16Linear):
        assert Bf16Linear(weight, None).weight_bytes == 20 * 50 * 2


# The choice


@pytest.mark.parametrize("weights", ["fp32", "int8"])
def test_every_processor_gets_a_product_that_keeps_rows_apart(weights):
    assert keeps_rows_apart(choose_linear(weights))


@pytest.mark.parametrize(
    ("weights", "packed", "portable"),
    [("fp32", Fp32Linear, PortableFp32Linear), ("int8", Int8Linear, PortableInt8Linear)],
)
@pytest.mark.parametrize("error", [AttributeError, NotImplementedError, RuntimeError])
def test_where_packed_products_are_missing_the_portable_ones_are_taken(
    monkeypatch, forget_choices, weights, packed, portable, error
):
    def missing(self, x):
        raise error("not implemented for this packed parameter type")

    monkeypatch.setattr(packed, "__call__", missing)
    assert choose_linear(weights) is portable


class LoudestRowScales(Int8Linear):
    """One scale for all rows, as dynamic quantization takes it."""

    def __call__(self, x):
        largest = x.abs().max()
        return super().__call__((x / largest * LEVELS).round() * largest / LEVELS)


class PlaceCounts(Fp32Linear):
    """The last bits depend on a row's place in the batch."""

    def __call__(self, x):
        return super().__call__(x) * (1 + 1e-6 * torch.arange(len(x))[:, None])


class RowCountCounts(Fp32Linear):
    """The last bits depend on how many rows there are."""

    def __call__(self, x):
        return super().__call__(x) * (1 + 1e-6 * len(x))


class Saturates(Fp32Linear):
    """Large sums are cut off."""

    def __call__(self, x):
        return super().__call__(x).clamp(-20, 20)


@pytest.mark.parametrize("wrong", [LoudestRowScales, PlaceCounts, RowCountCounts, Saturates])
def test_a_product_that_is_wrong_or_lets_rows_meet_is_found_out(wrong):
    assert not keeps_rows_apart(wrong)


def test_float32_products_that_let_rows_meet_are_refused_in_favour_of_int8(monkeypatch, forget_choices):
    monkeypatch.setitem(CPU_KINDS, "fp32", (PlaceCounts, RowCountCounts))
    with pytest.raises(DraftlineError, match=r"fp32 weights.*use int8") as raised:
        choose_linear("fp32")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("weights", ["bf16", "fp16"])
def test_half_precision_without_a_fast_product_is_refused_in_favour_of_int8(
    monkeypatch, forget_choices, weights
):
    def missing(self, weight, bias):
        raise RuntimeError("bf16 path needs the cpu support avx_ne_convert or avx512bw")

    monkeypatch.setattr(Bf16Linear, "__init__", missing)
    with pytest.raises(DraftlineError, match=rf"{weights} weights.*use int8"):
        choose_linear(weights)
