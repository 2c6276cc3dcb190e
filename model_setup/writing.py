"""Text that a model writes itself, to be counted into the trigram table beside what people wrote.

Spector & Ré 2023 (section 4) count their trigram from 120M tokens that the draft samples at temperature 1.5:
what is wanted is not good text but the model's habits, and a high temperature shows many of them. Each text
goes on from a short piece of the repository, so that it is about the names that matter.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.checkpoint import load_checkpoint
from engine.device_reader import STEP_ROWS, DeviceReader
from engine.errors import DraftlineError
from engine.generation import sample_texts
from engine.placement import placements
from engine.reader import Reader
from engine.sampling import Sampler
from model_setup.generated_texts import GeneratedTexts

TEMPERATURE = 1.5
START = 16  # tokens of the repository that a text goes on from
LENGTH = 128  # tokens of a text
# On one core of a busy machine, Qwen2.5-Coder-0.5B in int8: 11, 37, 37 and 33 tokens/s with 1, 8, 16 and 32
# texts of 24 tokens, 28 and 32 with 8 and 16 of 128. Attention reads the slots of all texts for each row,
# which takes back what a larger batch of products gains, and a larger cache is memory as well.
SIDE_BY_SIDE = 8


def starts_of(documents: Iterable[NDArray[Any]]) -> list[list[int]]:
    """A piece of START tokens at every LENGTH tokens of the documents, each once.

    In the order of their hashes: mixed, and yet the same when other documents have changed meanwhile.
    """
    pieces = {
        document[at : at + START].astype("<u4").tobytes(): document[at : at + START]
        for document in documents
        for at in range(0, len(document), LENGTH)
    }
    return [pieces[key].tolist() for key in sorted(pieces, key=lambda key: hashlib.sha256(key).digest())]


def generate_texts(
    model: Path,
    tokenizer_fingerprint: str,
    starts: list[list[int]],
    path: Path,
    tokens: int,
    seconds: float = math.inf,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Let ``model`` go on from ``starts`` until the file at ``path`` holds ``tokens`` tokens, or time is up.

    The file grows batch by batch (see `GeneratedTexts`), and a later call goes on where this one ended or was
    killed: starts that were used less often come first, and none is used twice before all were used once.
    Without starts nothing is written. seconds: for loading and writing; a batch is not begun if it would end
    later, judging by the one before. on_progress: called with how many tokens there are. Returns how many.

    Raises:
        DraftlineError: the model cannot be loaded, has another tokenizer than the table, or there is no room.
    """
    until = time.monotonic() + seconds
    written = GeneratedTexts(path, tokenizer_fingerprint)
    used: Counter[bytes] = Counter()
    done = 0
    for start, text in written:
        used[start.tobytes()] += 1
        done += _length(text)
    if not starts or done >= tokens:
        return done
    reader, eos_ids, side_by_side = _author(model, tokenizer_fingerprint)
    sampler = Sampler(TEMPERATURE)
    number = used.total()
    queue = _least_used_first(starts, used)
    took = 0.0
    while done < tokens and (began := time.monotonic()) + took < until:
        group = list(itertools.islice(queue, side_by_side))
        texts = sample_texts(reader, group, LENGTH, sampler, eos_ids, first=number)
        written.append(group, texts)
        number += len(group)
        done += sum(map(_length, texts))
        took = time.monotonic() - began
        if on_progress is not None:
            on_progress(done)
    return done


def _length(text: NDArray[Any] | list[int]) -> int:
    """A text's tokens, at least 1: a model that ends every text at once must come to an end as well."""
    return max(len(text), 1)


def _least_used_first(starts: list[list[int]], used: Counter[bytes]) -> Iterator[list[int]]:
    counts = [used[np.array(start, dtype="<u4").tobytes()] for start in starts]
    for reading in itertools.count(min(counts)):
        yield from (start for start, count in zip(starts, counts, strict=True) if count <= reading)


def _author(model: Path, tokenizer_fingerprint: str) -> tuple[Reader, tuple[int, ...], int]:
    """The model where it runs best, what ends its texts, and how many it writes side by side."""
    placement = placements("auto", "auto")[0]
    checkpoint = load_checkpoint(model, placement.weights, device=placement.device)
    if checkpoint.tokenizer.fingerprint != tokenizer_fingerprint:
        raise DraftlineError(
            f"The model in {model} has another tokenizer than the one that the table is for: name one of "
            "the same family."
        )
    if placement.device == "cpu":
        reader = Reader(checkpoint.transformer, SIDE_BY_SIDE * (START + LENGTH))
        return reader, checkpoint.eos_ids, SIDE_BY_SIDE
    capacity = STEP_ROWS * (START + LENGTH)
    reader = DeviceReader(checkpoint.transformer, capacity, placement.cache_dtype, graphs=True)
    return reader, checkpoint.eos_ids, STEP_ROWS
