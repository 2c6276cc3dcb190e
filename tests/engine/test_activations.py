"""Each activation is what it is called, and gives an element the same bits whatever is computed beside it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from transformers.activations import ACT2FN

from engine.activations import ACTIVATIONS, gated
from tests.engine.tiny_models import ROW_COUNTS


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_are_those_of_transformers(name):
    x = torch.cat([torch.linspace(-12, 12, 10_001), torch.tensor([0.0, -1e4, 1e4, -1e15, 1e15])])
    exact = ACT2FN[name](x.double())
    torch.testing.assert_close(ACTIVATIONS[name](x).double(), exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_argument_stays_as_it_is(name):
    x = torch.linspace(-3, 3, 7)
    ACTIVATIONS[name](x)
    assert torch.equal(x, torch.linspace(-3, 3, 7))


def test_a_gate_weighs_the_values_behind_it():
    def double(x: Tensor) -> Tensor:
        return 2 * x

    assert torch.equal(gated(double)(torch.tensor([[1.0, 2.0, 10.0, 100.0]])), torch.tensor([[20.0, 400.0]]))


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [97, 1216])
def test_an_elements_bits_do_not_depend_on_the_number_of_rows(name, threads, width, set_threads):
    activation = ACTIVATIONS[name]
    x = 3 * torch.randn(64, width, generator=torch.Generator().manual_seed(0))
    alone = torch.cat([activation(x[row : row + 1].clone()) for row in range(64)])
    set_threads(threads)
    for rows in ROW_COUNTS:
        assert torch.equal(activation(x[:rows].clone()), alone[:rows]), f"{rows} rows"
