"""The head of a carved draft, before any training: what the last layer says, told from what the first say.

The head was made for what the oracle's last layer gives it. A linear map takes the features of the draft as
near to those as least squares can, and multiplied into the head it costs nothing (as in the tuned lens,
Belrose et al. 2023, arXiv 2303.08112, which trains such maps to look into a model). Fitted on 8 windows of
libcst, two layers of Qwen2.5-Coder-0.5B foretold 12.8 % of 3600 held-out places first and 29.9 % among four;
two layers cut out and no more, 2.3 and 3.9 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from model_setup.distillation import batch_of
from model_setup.recall import Example
from model_setup.trainable import Trainable

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)  # of the features' mean square: the fewer windows, the more is needed
TRIED_ON = 5  # every fifth window is left out of the fit that a ridge is tried with


@dataclass
class _Moments:
    """Sums over places: the products of our features with each other, and with the oracle's."""

    ours: Tensor
    theirs: Tensor

    def __add__(self, other: _Moments) -> _Moments:
        return _Moments(self.ours + other.ours, self.theirs + other.theirs)

    def fit(self, ridge: float) -> Tensor:
        """[hidden, hidden]: the map with the least squared error, and ``ridge`` against large ones."""
        weight = ridge * self.ours.diagonal().mean()
        fitted: Tensor = torch.linalg.solve(self.ours + weight * torch.eye(len(self.ours)), self.theirs)
        return fitted

    def error(self, translation: Tensor) -> float:
        """The squared error of ``translation`` here, but for a constant."""
        return float((translation * (self.ours @ translation - 2 * self.theirs)).sum())


@torch.no_grad()
def translate_head(model: Trainable, examples: Iterable[Example], device: str) -> None:
    """Fit the head of ``model`` to what the oracle said of ``examples``; those without its answers are left
    out."""
    parts: list[list[_Moments]] = [[], []]
    asked = (example for example in examples if example.predictions is not None)
    for number, example in enumerate(asked):
        assert example.predictions is not None
        tokens, seen = (tensor.to(device) for tensor in batch_of([example]))
        features = model.features(tokens, seen)[0].float().cpu()
        moments = _Moments(features.T @ features, features.T @ example.predictions.features.float())
        part = parts[number % TRIED_ON == 0]
        part[:] = [part[0] + moments] if part else [moments]
    if not (parts[0] and parts[1]):
        return
    (fitted,), (tried,) = parts
    best = min(RIDGES, key=lambda ridge: tried.error(fitted.fit(ridge)))
    model.translate((fitted + tried).fit(best).to(device))
