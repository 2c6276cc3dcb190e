"""Text that a model writes itself, to be counted into the trigram table beside what people wrote.

Spector & Ré 2023 (section 4) count their trigram from 120M tokens that the draft samples at temperature 1.5:
what is wanted is not good text but the model's habits, and a high temperature shows many of them. Each text
goes on from a short piece of the repository, so that it is about the names that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint import load_checkpoint
from engine.errors import DraftlineError
from engine.generation import sample_texts
from engine.reader import Reader
from engine.sampling import Sampler

TEMPERATURE = 1.5
START = 16  # tokens of the repository that a text goes on from
LENGTH = 128  # tokens of a text
# On one core of a busy machine, Qwen2.5-Coder-0.5B in int8: 11, 37, 37 and 33 tokens/s with 1, 8, 16 and 32
# texts of 24 tokens, 28 and 32 with 8 and 16 of 128. Attention reads the slots of all texts for each row,
# which takes back what a larger batch of products gains, and a larger cache is memory as well.
SIDE_BY_SIDE = 8


def starts_of(documents: Sequence[NDArray[Any]]) -> list[list[int]]:
    """A piece of START tokens at every LENGTH tokens of the documents, in random order."""
    pieces = [
        document[at : at + START].tolist() for document in documents for at in range(0, len(document), LENGTH)
    ]
    return [pieces[at] for at in np.random.default_rng(0).permutation(len(pieces))]


def generate_texts(
    model: Path,
    tokenizer_fingerprint: str,
    starts: Sequence[list[int]],
    tokens: int,
    on_progress: Callable[[int], None] | None = None,
) -> Iterator[NDArray[np.uint32]]:
    """Let ``model`` go on from ``starts``, in turn, until it has written ``tokens`` tokens.

    starts: without any, nothing is written. on_progress: called with how many there are.

    Raises:
        DraftlineError: the model cannot be loaded, or has another tokenizer than the table.
    """
    checkpoint = load_checkpoint(model, "int8")
    if checkpoint.tokenizer.fingerprint != tokenizer_fingerprint:
        raise DraftlineError(
            f"The model in {model} has another tokenizer than the one that the table is for: name one of "
            "the same family."
        )
    reader = Reader(checkpoint.transformer, SIDE_BY_SIDE * (START + LENGTH))
    sampler = Sampler(TEMPERATURE)
    endless = cycle(starts)
    written = done = 0
    while starts and done < tokens:
        group = list(islice(endless, SIDE_BY_SIDE))
        for text in sample_texts(reader, group, LENGTH, sampler, checkpoint.eos_ids, first=written):
            done += max(len(text), 1)  # a model that ends every text at once must come to an end as well
            yield np.array(text, dtype=np.uint32)
        written += len(group)
        if on_progress is not None:
            on_progress(done)
