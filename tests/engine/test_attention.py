"""Attention in fixed point: what softmax attention gives, and exact in any order of summation."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from engine.attention import GRID, exact_attention, round_to_grid_

KV_HEADS, GROUP, HEAD_DIM = 2, 3, 16
SCALE = HEAD_DIM**-0.5


def random_tensors(seed: int, rows: int, slots: int, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    """queries [kv_heads, group, rows, head_dim], keys and values [kv_heads, slots, head_dim], float32."""
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(KV_HEADS, GROUP, rows, HEAD_DIM, generator=generator) * spread
    keys, values = torch.randn(2, KV_HEADS, slots, HEAD_DIM, generator=generator) * spread
    return queries, keys, values


def on_grid(x: Tensor) -> Tensor:
    return round_to_grid_(x.double(), GRID)


def attend(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None) -> Tensor:
    """[kv_heads, group, rows, head_dim]. visible: [rows, rows]."""
    rows = queries.shape[2]
    out = exact_attention(
        on_grid(queries * SCALE).reshape(KV_HEADS, GROUP * rows, HEAD_DIM),
        on_grid(keys),
        on_grid(values),
        None if visible is None else (~visible).repeat(GROUP, 1),
    )
    return out.view(KV_HEADS, GROUP, rows, HEAD_DIM)


def softmax_attention(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor) -> Tensor:
    """The reference, torch's own in float64."""
    slots = torch.ones(visible.shape[0], keys.shape[1] - visible.shape[0], dtype=torch.bool)
    mask = torch.cat((slots, visible), dim=1)
    keys, values = (tensor[:, None].expand(-1, GROUP, -1, -1).double() for tensor in (keys, values))
    return functional.scaled_dot_product_attention(queries.double(), keys, values, attn_mask=mask)


def random_tree_mask(seed: int, rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    visible = torch.eye(rows, dtype=torch.bool)
    for row in range(1, rows):
        visible[row] |= visible[int(torch.randint(row, (1,), generator=generator))]
    return visible


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 20), st.integers(0, 200), st.sampled_from([0.1, 1.0, 4.0]))
def test_it_is_softmax_attention(seed, rows, before, spread):
    queries, keys, values = random_tensors(seed, rows, before + rows, spread)
    visible = random_tree_mask(seed, rows)
    ours = attend(queries, keys, values, visible)
    theirs = softmax_attention(queries, keys, values, visible)
    torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=2e-5 * max(spread, spread**3))


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(2, 33), st.integers(0, 300))
def test_a_row_attends_as_it_would_alone_behind_its_ancestors(seed, rows, before):
    queries, keys, values = random_tensors(seed, rows, before + rows)
    visible = random_tree_mask(seed, rows)
    together = attend(queries, keys, values, visible)
    for row in {0, rows // 2, rows - 1}:
        seen = [*range(before), *(before + visible[row].nonzero().flatten()).tolist()]
        alone = attend(queries[:, :, row : row + 1], keys[:, seen], values[:, seen], None)
        assert torch.equal(together[:, :, row], alone[:, :, 0])


def test_what_a_row_must_not_see_does_not_matter():
    queries, keys, values = random_tensors(0, 3, 40)
    visible = torch.tensor([[True, False, False], [True, True, False], [True, False, True]])
    before = attend(queries, keys, values, visible)
    keys[:, -2], values[:, -2] = 50.0, -50.0  # seen by the second row alone
    after = attend(queries, keys, values, visible)
    assert torch.equal(before[:, :, [0, 2]], after[:, :, [0, 2]])
    assert not torch.equal(before[:, :, 1], after[:, :, 1])


def test_a_row_that_sees_only_itself_gets_its_own_value():
    queries, keys, values = random_tensors(1, 4, 4)
    out = attend(queries, keys, values, torch.eye(4, dtype=torch.bool))
    expected = values[:, None].expand(-1, GROUP, -1, -1)
    torch.testing.assert_close(out.float(), expected, rtol=0, atol=GRID)


@pytest.mark.parametrize("grid", [2.0**-22, 2.0**-19, 1.0])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4])
def test_rounding_goes_to_the_nearest_multiple_of_the_grid(grid, size):
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)).double() * size
    assert torch.equal(round_to_grid_(x.clone(), grid), (x / grid).round() * grid)
