"""Katz back-off estimated from counts, and the table written from it.

S. M. Katz, 'Estimation of probabilities from sparse data', IEEE ASSP 35(3), 1987. A successor w seen r
times in a context has the probability d_r r / total; the mass that the discounts d_r set free goes to the
unseen successors, in proportion to their probability in the context shortened by one token:

    P(w | u, v) = d_r r / total(u, v)       if (u, v, w) was seen
                = alpha(u, v) P(w | v)      otherwise

and alike down to the empty context, whose own back-off is the uniform law. total is the number of times
that the context was followed by a token, but for two cases that keep each sum at 1 (see ``_weights``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.ngram_count import BITS, END, Counts, count
from engine.ngram_file import HEAD, check_tokenizer, integers, open_file, verify_body, write_file

K = 5  # counts above this are taken at face value (Katz's own choice)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def write_table(
    path: Path, documents: Iterable[NDArray[Any]], vocab_size: int, tokenizer_fingerprint: str
) -> None:
    """Count ``documents`` (arrays of token ids below ``vocab_size``) and write their table to ``path``."""
    write_counts(path, count(documents, vocab_size), vocab_size, tokenizer_fingerprint)


def write_counts(path: Path, counts: Counts, vocab_size: int, tokenizer_fingerprint: str) -> None:
    """Write the table of ``counts`` to ``path``.

    Raises:
        DraftlineError: the file cannot be written.
    """
    if counts.tokens >= 1 << 32:
        raise ValueError(f"{counts.tokens} tokens were counted, fewer than 2^32 fit")
    token_count, bigrams, trigrams, bigram_start = _split(counts, vocab_size)
    factors = [
        good_turing(order) for order in (token_count[token_count > 0], bigrams.counts, trigrams.counts)
    ]
    # discounted[order][r] = d_r r
    discounted = [np.arange(K + 1) * np.array([0.0, *order]) for order in factors]

    first, second = bigrams.keys >> BITS, bigrams.keys & END
    context = np.repeat(np.arange(len(bigrams.keys)), np.diff(bigram_start))

    seen = np.flatnonzero(token_count)
    root = _weights(
        np.zeros(len(seen), dtype=np.int64),
        token_count[seen],
        discounted[0],
        np.full(len(seen), 1 / vocab_size),
        1,
        vocab_size,
    )
    total, alpha = float(root[0][0]), float(root[1][0])
    unigram = np.full(vocab_size, alpha / vocab_size)
    unigram[seen] = _discount(token_count[seen], discounted[0]) / total
    token_total, token_alpha = _weights(
        first, bigrams.counts, discounted[1], unigram[second], vocab_size, vocab_size
    )
    bigram = _discount(bigrams.counts, discounted[1]) / token_total[first]
    below = bigram[_find(bigrams.keys, trigrams.keys & (END << BITS | END))]
    bigram_total, bigram_alpha = _weights(
        context, trigrams.counts, discounted[2], below, len(bigrams.keys), vocab_size
    )

    order = _by_falling_count(context, trigrams.counts)
    tail = np.arange(len(order)) - bigram_start[context] >= HEAD
    order[tail] = np.sort(order[tail])  # positions ascend with the ids within a context
    arrays: dict[str, NDArray[Any]] = {
        "token_count": token_count,
        "token_total": token_total,
        "token_alpha": token_alpha,
        "token_start": _starts(first, vocab_size),
        "token_order": np.argsort(-unigram, kind="stable"),
        "bigram_id": second,
        "bigram_count": bigrams.counts,
        "bigram_total": bigram_total,
        "bigram_alpha": bigram_alpha,
        "bigram_start": bigram_start,
        "bigram_order": _by_falling_count(first, bigrams.counts),
        "trigram_id": (trigrams.keys & END)[order],
        "trigram_count": trigrams.counts[order],
    }
    write_file(path, arrays, tokenizer_fingerprint, vocab_size, factors, total, alpha)


def read_counts(path: Path, tokenizer_fingerprint: str) -> Counts:
    """The counts that a table was written from, exactly.

    Raises:
        DraftlineError: the table cannot be read, is damaged or belongs to another tokenizer.
    """
    description, data = open_file(path)
    check_tokenizer(path, description, tokenizer_fingerprint)
    verify_body(path, description, data)

    def load(name: str) -> Ints:
        return np.array(integers(description, data, name), dtype=np.int64)

    token_count, token_start = load("token_count"), load("token_start")
    second, bigram_count, bigram_start = load("bigram_id"), load("bigram_count"), load("bigram_start")
    third, trigram_count = load("trigram_id"), load("trigram_count")
    tokens = np.arange(len(token_count))
    first = np.repeat(tokens, np.diff(token_start))
    pair = first << BITS | second
    context = np.repeat(np.arange(len(pair)), np.diff(bigram_start))
    # what is not followed by a token is followed by the end of a document
    last = token_count - np.bincount(first, bigram_count, len(token_count)).astype(np.int64)
    last_pair = bigram_count - np.bincount(context, trigram_count, len(pair)).astype(np.int64)
    keys = np.concatenate(
        (pair[context] << BITS | third, pair << BITS | END, tokens << 2 * BITS | END << BITS | END)
    )
    counts = np.concatenate((trigram_count, last_pair, last))
    order = np.argsort(keys, kind="stable")  # sorted but for the head of each context: a third of the time
    order = order[counts[order] > 0]
    return Counts(keys[order], counts[order])


def good_turing(counts: NDArray[Any]) -> list[float]:
    """The factors d_1 ... d_K for these counts (one per n-gram type).

    With n_r types seen r times and r* = (r + 1) n_{r+1} / n_r, Katz (1987) has
    d_r = (r*/r - (K + 1) n_{K+1} / n_1) / (1 - (K + 1) n_{K+1} / n_1).

    Few counts make a poor estimate: some d_r leaves (0, 1], or d_r r falls as r grows, so that a
    successor seen more often would rank lower. Then one constant is taken off each count instead,
    d_r = (r - b) / r with b = n_1 / (n_1 + 2 n_2) (Ney, Essen and Kneser 1994), or 1/2 where that is
    not between 0 and 1.
    """
    n = np.bincount(np.minimum(counts, K + 2), minlength=K + 3).astype(np.float64)
    r = np.arange(1, K + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        common = (K + 1) * n[K + 1] / n[1]
        factors = ((r + 1) * n[2 : K + 2] / n[1 : K + 1] / r - common) / (1 - common)
    if not (np.all(factors > 0) and np.all(factors <= 1) and np.all(np.diff(factors * r) >= 0)):
        constant = n[1] / (n[1] + 2 * n[2]) if n[1] > 0 and n[2] > 0 else 0.5
        factors = (r - constant) / r
    return [float(factor) for factor in factors]


def _split(counts: Counts, vocab_size: int) -> tuple[Ints, Counts, Counts, Ints]:
    """Counts of tokens [vocab], of bigrams (keys v, w) and of trigrams (keys u, v, w), without END; and where
    each bigram's trigrams begin, and where the last one's end."""
    pairs = counts.keys >> BITS
    real = counts.keys & END != END
    start = np.flatnonzero(np.diff(pairs, prepend=-1))
    pair_keys = pairs[start]
    pair_counts = np.add.reduceat(counts.counts, start) if len(start) else start
    pair_trigrams = np.add.reduceat(real, start, dtype=np.int64) if len(start) else start
    token_count = np.bincount(pair_keys >> BITS, pair_counts, vocab_size).astype(np.int64)
    real_pair = pair_keys & END != END
    return (
        token_count,
        Counts(pair_keys[real_pair], pair_counts[real_pair]),
        Counts(counts.keys[real], counts.counts[real]),
        np.concatenate(([0], np.cumsum(pair_trigrams[real_pair]))),
    )


def _find(keys: Ints, wanted: Ints) -> Ints:
    """Where each of ``wanted`` stands among ``keys``, which are distinct, ascend, and hold them all.

    A table of one key a hash finds most of them; the rest are bisected. For the 1.8M trigrams of the general
    table that takes 0.12 s, where bisection alone takes 0.3.
    """
    bits = max(len(keys), 1).bit_length() + 1

    def hashes(numbers: Ints) -> NDArray[np.uint64]:
        golden = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio (Knuth, TAOCP 3, 6.4)
        return (numbers.view(np.uint64) * golden) >> np.uint64(64 - bits)

    table = np.zeros(1 << bits, dtype=np.int64)
    table[hashes(keys)] = np.arange(len(keys))
    found = table[hashes(wanted)]
    if len(keys):
        displaced = np.flatnonzero(keys[found] != wanted)
        found[displaced] = np.searchsorted(keys, wanted[displaced])
    return found


def _weights(
    context: Ints, counts: Ints, discounted: Floats, below: Floats, contexts: int, vocab_size: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """total and alpha of each context, from its successors.

    context, counts, below: per successor, its context, its count and its probability one order down.
    If no successor was discounted, total is one larger than the number of successors, so that an unseen
    token never has probability 0; if all tokens are successors, total is the sum of what they keep.
    """
    number = np.bincount(context, minlength=contexts)
    followed = np.bincount(context, counts, contexts)
    kept = np.bincount(context, _discount(counts, discounted), contexts)
    total = np.where(followed - kept > 1e-9 * followed, followed, followed + 1)
    total = np.where(number == vocab_size, kept, total).astype(np.float32)
    # from here on with the rounded total, as it will be read
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = (1 - kept / total.astype(np.float64)) / (1 - np.bincount(context, below, contexts))
    return total, np.where(number == vocab_size, 0.0, alpha).astype(np.float32)


def _discount(counts: Ints, discounted: Floats) -> Floats:
    return np.where(counts <= K, discounted[np.minimum(counts, K)], counts)


def _starts(context: Ints, contexts: int) -> Ints:
    """Where each context's successors begin, and where the last one's end."""
    return np.concatenate(([0], np.cumsum(np.bincount(context, minlength=contexts))))


def _by_falling_count(context: Ints, counts: Ints) -> Ints:
    """A permutation that sorts by context, then falling count, then position."""
    return np.argsort(context << 32 | ((1 << 32) - 1 - counts), kind="stable")
