"""Norms are what they are called, and normalise a row by itself."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.norms import Norm, layer_norm, rms_norm
from tests.engine.tiny_models import ROW_COUNTS

EPS = 1e-5


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_rms_norm_leaves_a_mean_square_of_one():
    x, weight = random(5, 40), random(40, seed=1)
    expected = weight * x / (x.pow(2).mean(dim=1, keepdim=True) + EPS).sqrt()
    torch.testing.assert_close(rms_norm(weight, EPS)(x), expected)


def test_layer_norm_leaves_a_mean_of_zero_and_a_variance_of_one():
    x, weight, bias = random(5, 40), random(40, seed=1), random(40, seed=2)
    centred = x - x.mean(dim=1, keepdim=True)
    expected = weight * centred / (centred.pow(2).mean(dim=1, keepdim=True) + EPS).sqrt() + bias
    torch.testing.assert_close(layer_norm(weight, bias, EPS)(x), expected)


def test_rms_norm_of_heads_takes_each_by_itself():
    x, weight = random(5, 6, 16), random(6, 16, seed=1)
    expected = torch.stack([rms_norm(weight[head], EPS)(x[:, head]) for head in range(6)], dim=1)
    assert torch.equal(rms_norm(weight, EPS)(x), expected)


@pytest.mark.parametrize("width", [96, 896])
@pytest.mark.parametrize("kind", ["rms", "layer", "head"])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_a_rows_bits_do_not_depend_on_the_number_of_rows(kind, width, threads, set_threads):
    weight, bias = random(width, seed=1), random(width, seed=2)
    norms: dict[str, Norm] = {
        "rms": rms_norm(weight, EPS),
        "layer": layer_norm(weight, bias, EPS),
        # as the forward calls it: on the first heads of a wider row
        "head": lambda x: rms_norm(weight.view(-1, 16), EPS)(x.view(len(x), -1, 16)[:, : width // 16]),
    }
    x = random(64, 2 * width if kind == "head" else width)
    alone = torch.cat([norms[kind](x[row : row + 1].clone()) for row in range(64)])
    set_threads(threads)
    for rows in ROW_COUNTS:
        assert torch.equal(norms[kind](x[:rows].clone()), alone[:rows]), f"{rows} rows"
