"""Counts are exact, however they are cut into chunks, and survive the table they are written to."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import ngram_count
from engine.katz import K, good_turing, read_counts, write_counts
from engine.ngram_count import BITS, END, Counts, count, merge

documents = st.lists(
    st.lists(st.integers(0, 5), max_size=30).map(lambda d: np.array(d, dtype=np.uint32)), max_size=8
)


def naive(docs) -> dict[tuple[int, ...], int]:
    counted: Counter[tuple[int, ...]] = Counter()
    for d in docs:
        padded = [*d.tolist(), END, END]
        counted.update(zip(padded, padded[1:], padded[2:], strict=False))
    return dict(counted)


def unpacked(counts: Counts) -> dict[tuple[int, ...], int]:
    assert (np.diff(counts.keys) > 0).all()
    return {
        (key >> 2 * BITS, key >> BITS & END, key & END): n
        for key, n in zip(counts.keys.tolist(), counts.counts.tolist(), strict=True)
    }


@given(documents, st.integers(1, 40))
def test_counts_are_those_of_the_definition_and_never_cross_documents(docs, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ngram_count, "CHUNK_TOKENS", chunk)
        counts = count(docs, 6)
    assert unpacked(counts) == naive(docs)
    assert counts.tokens == sum(len(d) for d in docs)


@given(documents, documents)
def test_merged_counts_are_those_of_both_texts(a, b):
    assert unpacked(merge([count(a, 6), count(b, 6)])) == naive([*a, *b])


@given(documents, st.integers(1, 9))
def test_weighted_counts_are_those_of_a_text_read_so_many_times(docs, weight):
    assert unpacked(count(docs, 6).times(weight)) == naive(docs * weight)


@settings(max_examples=40, deadline=None)
@given(documents)
def test_a_table_gives_back_the_counts_it_was_written_from(tmp_path_factory, docs):
    path = tmp_path_factory.mktemp("t") / "table"
    counts = count(docs, 6)
    write_counts(path, counts, 6, "f")
    assert unpacked(read_counts(path, "f")) == unpacked(counts)


def test_an_id_outside_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="outside the vocabulary of 5"):
        count([np.array([1, 5])], 5)
    with pytest.raises(ValueError, match="at most"):
        count([], END + 1)


def test_the_largest_ids_fit():
    top = END - 1
    assert unpacked(count([np.array([top, top, top])], END)) == naive([np.array([top, top, top])])


def test_good_turing_is_katz_formula():
    n = [1000, 400, 220, 140, 100, 75]
    counts = np.repeat(np.arange(1, 7), n)
    common = 6 * 75 / 1000
    expected = [((r + 1) * n[r] / n[r - 1] / r - common) / (1 - common) for r in range(1, K + 1)]
    assert good_turing(counts) == pytest.approx(expected)


@given(st.lists(st.integers(1, 9), max_size=200))
def test_discounts_stay_in_bounds_and_keep_the_order_of_counts_whatever_the_corpus(counts):
    factors = good_turing(np.array(counts, dtype=np.int64))
    assert all(0 < d <= 1 for d in factors)
    kept = [d * r for r, d in enumerate(factors, start=1)]
    assert kept == sorted(kept)


def test_where_good_turing_fails_a_constant_is_taken_off_each_count():
    counts = np.repeat([1, 2, 7], [10, 5, 3])
    assert good_turing(counts) == pytest.approx([(r - 0.5) / r for r in range(1, K + 1)])
