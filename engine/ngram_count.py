"""Counting trigrams by sorting packed integers.

Token ids fit into 21 bits, so three of them make one int64 whose order is that of the trigrams. Each
position i of a document gives one key (t[i], t[i+1], t[i+2]), with END in place of what lies past the
document's end. One sorted array of distinct keys with their counts then holds the counts of all orders:
a bigram's count is the sum over its keys, END included, a token's likewise, and no n-gram crosses from
one document into the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 21
END = (1 << BITS) - 1
CHUNK_TOKENS = 1 << 22  # keys sorted at a time: 32 MB


@dataclass(frozen=True)
class Counts:
    """keys: int64, distinct and ascending. counts: int64, all positive."""

    keys: NDArray[np.int64]
    counts: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """How many tokens were counted: each is the first of exactly one key."""
        return int(self.counts.sum())

    def times(self, weight: int) -> Counts:
        """These counts as if every text had been read ``weight`` times."""
        return Counts(self.keys, self.counts * weight)


def count(documents: Iterable[NDArray[Any]], vocab_size: int) -> Counts:
    """Count the trigrams of ``documents``, one-dimensional integer arrays of ids below ``vocab_size``.

    Raises:
        ValueError: an id outside the vocabulary, or a vocabulary of more than 2^21 - 1 tokens.
    """
    if vocab_size > END:
        raise ValueError(f"vocab_size is {vocab_size}, at most {END} fit")
    runs: list[Counts] = []
    chunk: list[NDArray[np.int64]] = []
    size = 0
    for document in documents:
        if len(document) == 0:
            continue
        if int(document.min()) < 0 or int(document.max()) >= vocab_size:
            raise ValueError(f"a token id lies outside the vocabulary of {vocab_size}")
        padded = np.full(len(document) + 2, END, dtype=np.int64)
        padded[:-2] = document
        chunk.append(padded[:-2] << (2 * BITS) | padded[1:-1] << BITS | padded[2:])
        size += len(document)
        if size >= CHUNK_TOKENS:
            _push(runs, _sorted_run(chunk))
            chunk, size = [], 0
    if chunk:
        _push(runs, _sorted_run(chunk))
    return merge(runs)


def merge(runs: Iterable[Counts]) -> Counts:
    """Add up counts."""
    parts = list(runs)
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Counts(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    keys = np.concatenate([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")  # merges runs that are sorted already
    return _grouped(keys[order], np.concatenate([part.counts for part in parts])[order])


def _push(runs: list[Counts], run: Counts) -> None:
    """Keep runs of falling size, so that each key is merged a logarithmic number of times."""
    while runs and len(runs[-1].keys) <= 2 * len(run.keys):
        run = merge([runs.pop(), run])
    runs.append(run)


def _sorted_run(chunk: list[NDArray[np.int64]]) -> Counts:
    keys = np.concatenate(chunk)
    chunk.clear()  # frees the documents' keys before the sort takes its own memory
    keys.sort()
    return _grouped(keys, None)


def _grouped(keys: NDArray[np.int64], counts: NDArray[np.int64] | None) -> Counts:
    """Join equal neighbours, each counting one if ``counts`` is None."""
    if len(keys) == 0:
        return Counts(keys, keys)
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    summed = np.diff(np.append(first, len(keys))) if counts is None else np.add.reduceat(counts, first)
    return Counts(keys[first], summed)
