"""What the draft is trained for: to have the oracle's token among its first few.

Where the oracle was asked, the loss is the cross-entropy to its likeliest tokens: a tree takes the draft's
four best, so the runners-up count, and the tail beyond them does not. Everywhere, with the weight TEXT, it is
that to the token that the text goes on with, which costs no asking: in held-out code of libcst,
Qwen2.5-Coder-0.5B's own choice was the text's next token in 77 % of 3600 places.

Other losses against it (tests/benchmarks/draft_losses.py): a draft carved from that model and trained for 100
steps of 2 windows of libcst at a rate of 2e-4, the oracle asked about 150 of them; how often its token was
the draft's first, and among its first four, in 3052 held-out places, in per cent:

    none: the draft as it is carved                     20.1   39.0
    the oracle's 8 likeliest, TEXT 1                    33.0   51.7
    the same, TEXT 0.3                                  31.6   49.8
    the same, TEXT 0                                    28.0   46.2
    the same, TEXT 0.3, windows with answers alone      29.9   50.6
    the oracle's greedy token, TEXT 0.3                 31.1   49.4
    the text alone                                      31.7   50.1
    1 - sum min(p, q), TEXT 0.3                         33.6   52.0
    a hinge at the fourth best, TEXT 0.3                30.4   49.3

1 - sum min(p, q) is what standard speculative sampling rejects, and one of the distances that DistillSpec
(Zhou et al. 2023) compares. It is no worse; of two as good the simpler one stays. One run each: a point is
no difference.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from model_setup.recall import Example
from model_setup.trainable import ABSENT, Trainable

TEXT = 1.0


def batch_of(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """The tokens of the examples' windows, [examples, longest] int64, and which of them are no padding."""
    longest = max(len(example.window.ids) for example in examples)
    tokens = torch.zeros(len(examples), longest, dtype=torch.int64)
    seen = torch.zeros(len(examples), longest, dtype=torch.bool)
    for row, example in enumerate(examples):
        ids = example.window.ids
        tokens[row, : len(ids)] = torch.tensor(ids)
        seen[row, : len(ids)] = True
    return tokens, seen


def loss_of(model: Trainable, scores: Tensor, examples: Sequence[Example]) -> Tensor:
    """The mean of the examples' losses. scores: [examples, longest, said], what the model says of them."""
    losses = [_loss(model, scores[row, : len(e.window.ids)], e) for row, e in enumerate(examples)]
    return torch.stack(losses).mean()


def _loss(model: Trainable, scores: Tensor, example: Example) -> Tensor:
    following = model.row_of(torch.tensor(example.window.ids[1:], device=scores.device))
    text = functional.cross_entropy(scores[:-1], following, ignore_index=ABSENT, reduction="sum")
    loss = TEXT * text / (following != ABSENT).sum().clamp(min=1)
    if example.predictions is not None:
        rows = model.row_of(example.predictions.ids.to(scores.device).long())
        chances = example.predictions.chances.to(scores.device).float() * (rows != ABSENT)
        logs = scores.log_softmax(dim=-1).gather(-1, rows.clamp(min=0))
        loss = loss - (chances * logs).sum(dim=-1).mean()
    return loss
