"""Rotary positions (Su et al. 2021): pairs of a head's elements turn, the further on the more.

A model made for long texts scales the angles; the kinds are those that config.json names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

SCALINGS = ("default", "linear", "dynamic", "llama3", "yarn")


def read_frequencies(rope: Mapping[str, Any], turned: int) -> tuple[tuple[float, ...], float]:
    """The radians a position by which each of ``turned`` / 2 pairs turns, and the factor by which it grows.

    rope: what config.json says: rope_type, one of SCALINGS, rope_theta, and what the type needs.

    Raises:
        KeyError, TypeError, ValueError: a value is missing or garbled.
    """
    theta = float(rope["rope_theta"])
    frequencies = theta ** -(torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    magnitude = 1.0
    kind = rope["rope_type"]
    # "dynamic" begins to scale beyond the model's longest text, where we do not go
    if kind == "linear":
        frequencies = frequencies / float(rope["factor"])
    elif kind == "llama3":
        frequencies = _llama3(frequencies, rope)
    elif kind == "yarn":
        frequencies, magnitude = _yarn(frequencies, rope, theta)
    if not bool(frequencies.isfinite().all()):
        raise ValueError("positions that turn without end")
    return tuple(frequencies.tolist()), magnitude


def _llama3(frequencies: Tensor, rope: Mapping[str, Any]) -> Tensor:
    """Slow turns are slowed down, fast ones are not, with a ramp between (Llama 3.1's apply_scaling)."""
    slow, fast = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    turns = int(rope["original_max_position_embeddings"]) * frequencies / (2 * math.pi)
    kept = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return frequencies * (kept + (1 - kept) / float(rope["factor"]))


def _yarn(frequencies: Tensor, rope: Mapping[str, Any], theta: float) -> tuple[Tensor, float]:
    """YaRN (Peng et al. 2023, arXiv 2309.00071), 3.2 and 3.4; mscale is DeepSeek's addition."""
    factor = float(rope["factor"])
    pairs, context = len(frequencies), int(rope["original_max_position_embeddings"])

    def pair_of(turns: float) -> float:
        return pairs * math.log(context / (turns * 2 * math.pi)) / math.log(theta)

    first, last = pair_of(float(rope.get("beta_fast") or 32)), pair_of(float(rope.get("beta_slow") or 1))
    if rope.get("truncate", True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * pairs - 1)
    width = last - first or 0.001
    slowed = ((torch.arange(pairs, dtype=torch.float64) - first) / width).clamp(0, 1)

    def growth(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0

    magnitude = rope.get("attention_factor")
    if magnitude is None:
        scales = rope.get("mscale"), rope.get("mscale_all_dim")
        magnitude = growth(scales[0]) / growth(scales[1]) if scales[0] and scales[1] else growth(1)
    return frequencies * (1 - slowed + slowed / factor), float(magnitude)


class Rotary:
    """The turns of a model's queries and keys."""

    def __init__(
        self,
        frequencies: tuple[float, ...],
        magnitude: float,
        head_dim: int,
        scales: Sequence[float],
        device: torch.device | str = "cpu",
    ) -> None:
        """frequencies, magnitude: see read_frequencies; the elements of a head beyond them stay. scales: by
        what each head is multiplied while it is turned."""
        resting = head_dim // 2 - len(frequencies)
        self._frequencies = torch.tensor([*frequencies, *[0.0] * resting], dtype=torch.float64, device=device)
        lengths = [*[magnitude] * len(frequencies), *[1.0] * resting]
        self._magnitudes = torch.tensor(lengths, dtype=torch.float64, device=device)
        self._scales = torch.tensor(scales, dtype=torch.float64, device=device)[:, None, None]

    def turns(self, positions: Tensor) -> Tensor:
        """positions [rows] -> [heads, rows, head_dim / 2] complex128, one factor a pair."""
        angles = positions[:, None] * self._frequencies
        return torch.polar(self._magnitudes.expand_as(angles), angles) * self._scales


def turn_(x: Tensor, turns: Tensor) -> None:
    """Turn x, [heads, rows, head_dim] float64, contiguous, in pairs and in place by what `turns` gave."""
    torch.view_as_complex(x.view(*turns.shape, 2)).mul_(turns)


def pair_up(weight: Tensor, head_dim: int, turned: int) -> Tensor:
    """Reorder the rows of a query or key matrix (or bias) so that rotated pairs lie side by side.

    Checkpoints pair element i of a head with i + turned / 2. A product of a query and a key does not depend
    on the order, and adjacent pairs are complex numbers, which one multiplication turns.
    weight: [heads * head_dim, ...] -> the same shape.
    """
    order = [*torch.arange(turned).view(2, -1).T.flatten().tolist(), *range(turned, head_dim)]
    return weight.view(-1, head_dim, *weight.shape[1:])[:, order].reshape(weight.shape)
