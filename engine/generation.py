"""Sampling many texts at once, as a forest in one cache.

The trigram of staged speculative decoding is counted from text that the draft writes, by the million tokens
(Spector & Ré 2023, 4). A pass over one row reads all weights, and a pass over eight reads them once as
well, so texts are written side by side: each pass takes the newest token of every text as a row that sees
the slots of its own text alone. Rows do not influence each other and noise belongs to (seed, text,
position), so a text is the same whichever others are written beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch

from engine.reader import PREFILL_ROWS, Reader
from engine.request import CancelToken
from engine.sampling import Sampler


def slots_needed(starts: Sequence[Sequence[int]], length: int) -> int:
    """The room that `sample_texts` takes in the cache, at most."""
    return sum(len(start) + length for start in starts)


@torch.inference_mode()
def sample_texts(
    reader: Reader,
    starts: Sequence[Sequence[int]],
    length: int,
    sampler: Sampler,
    eos_ids: Collection[int] = (),
    first: int = 0,
    cancel: CancelToken | None = None,
) -> list[list[int]]:
    """Continue each of ``starts`` (token ids, at least one) by up to ``length`` tokens, side by side.

    A text ends before a token of ``eos_ids``. first: the number of the first text; texts of different
    numbers have independent noise. What all starts begin with is read only once. The reader is left with
    that in its cache. Returns the new tokens of each text, or nothing at all if cancelled.

    Raises:
        ValueError: an empty start, or too little room in the cache (see `slots_needed`).
        DraftlineError: the model computes values that are not numbers.
    """
    cancel = cancel or CancelToken()
    if not all(starts):
        raise ValueError("each text needs a token to start from")
    if slots_needed(starts, length) > reader.cache.capacity:
        raise ValueError(f"{slots_needed(starts, length)} slots do not fit into {reader.cache.capacity}")
    texts: list[list[int]] = [[] for _ in starts]
    if not starts or length < 1:
        return texts
    shared = _shared(starts)
    if not reader.read(starts[0][:shared], cancel):
        return []
    # what is still to be read: (text, token, position)
    queue = [(text, start[at], at) for text, start in enumerate(starts) for at in range(shared, len(start))]
    seen = torch.zeros(len(starts), slots_needed(starts, length), dtype=torch.bool)
    written = 0  # slots behind the shared beginning
    while queue:
        if cancel.cancelled:
            return []
        rows, queue = queue[:PREFILL_ROWS], queue[PREFILL_ROWS:]
        visible = torch.zeros(len(rows), written + len(rows), dtype=torch.bool)
        for row, (text, _, _) in enumerate(rows):
            seen[text, written + row] = True
            visible[row] = seen[text, : visible.shape[1]]
        written += len(rows)
        answers = reader.rows([row[1] for row in rows], [row[2] for row in rows], visible)
        for row, (text, _, position) in enumerate(rows):
            if position + 1 < len(starts[text]):
                continue
            token = sampler.draw(sampler.distribution(answers[row].logits), position + 1, stream=first + text)
            if token in eos_ids:
                continue
            texts[text].append(token)
            if len(texts[text]) < length:
                queue.append((text, token, position + 1))
    return texts


def _shared(starts: Sequence[Sequence[int]]) -> int:
    """How many tokens all ``starts`` begin with, but for the last of the shortest: each text reads one."""
    shared = 0
    while shared < min(map(len, starts)) - 1 and len({start[shared] for start in starts}) == 1:
        shared += 1
    return shared
