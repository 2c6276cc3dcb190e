"""Rotary positions: the angles of each kind of scaling, and heads that turn by them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.rotary import Rotary, pair_up, read_frequencies, turn_

KINDS: dict[str, dict[str, Any]] = {
    "DeepSeek-Coder": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e5},
    "Llama 3.1": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_theta": 5e5,
    },
    "Qwen2.5": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
        "rope_theta": 1e6,
    },
    "yarn over a short context": {
        "rope_type": "yarn",
        "factor": 16.0,
        "original_max_position_embeddings": 64,
        "rope_theta": 1e4,
    },
    "yarn without a ramp": {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 4,
        "rope_theta": 1e4,
    },
    "yarn with all its settings": {
        "rope_type": "yarn",
        "factor": 3.0,
        "original_max_position_embeddings": 512,
        "rope_theta": 1e4,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "truncate": False,
        "attention_factor": 1.25,
    },
    "DeepSeek's yarn": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "rope_theta": 1e4,
        "mscale": 0.707,
        "mscale_all_dim": 1.0,
    },
}


@pytest.mark.parametrize("rope", KINDS.values(), ids=KINDS)
def test_angles_and_magnitude_are_those_of_transformers(rope):
    config = transformers.LlamaConfig(hidden_size=256, num_attention_heads=2, rope_parameters=dict(rope))
    theirs, magnitude = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, torch.device("cpu"))
    frequencies, ours = read_frequencies(rope, 128)
    assert frequencies == pytest.approx(theirs.tolist(), rel=1e-5)
    assert ours == pytest.approx(magnitude)


def test_dynamic_scaling_begins_beyond_the_context():
    plain = read_frequencies({"rope_type": "default", "rope_theta": 1e4}, 64)
    assert read_frequencies({"rope_type": "dynamic", "rope_theta": 1e4, "factor": 8.0}, 64) == plain
    assert plain[0][:2] == pytest.approx((1.0, 1e4 ** (-2 / 64)))


def turn(x: Tensor, turns: Tensor) -> Tensor:
    turned = x.clone(memory_format=torch.contiguous_format)
    turn_(turned, turns)
    return turned


def test_heads_turn_as_complex_numbers():
    x = torch.randn(3, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 1, 5, 1000])
    turned = turn(x, Rotary((0.5, 0.25, 0.1, 0.01), 1.0, 8, [1, 1, 1]).turns(positions))
    assert torch.equal(turned[:, 0], x[:, 0])
    for row, position in enumerate([0, 1, 5, 1000]):
        cos, sin = math.cos(0.25 * position), math.sin(0.25 * position)
        first, second = x[:, row, 2], x[:, row, 3]
        torch.testing.assert_close(turned[:, row, 2], first * cos - second * sin)
        torch.testing.assert_close(turned[:, row, 3], first * sin + second * cos)


def test_what_does_not_turn_stays_to_the_last_bit():
    """And does not grow either."""
    x = torch.randn(3, 33, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned = turn(x, Rotary((1.0, 0.1), 1.3, 16, [1, 1, 1]).turns(torch.arange(33)))
    assert torch.equal(turned[:, :, 4:], x[:, :, 4:])
    torch.testing.assert_close(turned[:, :, :4].norm(dim=2), 1.3 * x[:, :, :4].norm(dim=2))
    assert torch.equal(turn(x, Rotary((), 1.0, 16, [1, 1, 1]).turns(torch.arange(33))), x)


def test_heads_are_scaled_while_they_turn():
    x = torch.randn(3, 4, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    frequencies, positions = (0.5, 0.25), torch.arange(4)
    turned = turn(x, Rotary(frequencies, 1.0, 8, [1, 1, 1]).turns(positions))
    scaled = turn(x, Rotary(frequencies, 1.0, 8, [0.125, 1, 2]).turns(positions))
    assert torch.equal(scaled, turned * torch.tensor([0.125, 1, 2])[:, None, None])


@pytest.mark.parametrize("rows", range(1, 34))
def test_a_rows_turn_does_not_depend_on_the_number_of_rows(rows):
    x = torch.randn(6, 33, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    scales = [0.3, 0.3, 0.3, 0.3, 1, 1]
    rotary, positions = Rotary(tuple(0.9**i for i in range(12)), 1.1, 24, scales), torch.arange(100, 133)
    together = turn(x[:, :rows], rotary.turns(positions[:rows]))
    for row in range(rows):
        alone = turn(x[:, row : row + 1], rotary.turns(positions[row : row + 1]))
        assert torch.equal(together[:, row : row + 1], alone)


def test_pairs_come_to_lie_side_by_side():
    two_heads = torch.arange(20)
    head = [0, 3, 1, 4, 2, 5, 6, 7, 8, 9]
    assert pair_up(two_heads, 10, 6).tolist() == [*head, *(10 + place for place in head)]
    assert torch.equal(pair_up(two_heads, 10, 0), two_heads)
    matrix = two_heads[:, None] * torch.ones(1, 3)
    assert torch.equal(pair_up(matrix, 10, 10)[:, 1], pair_up(two_heads, 10, 10).float())
