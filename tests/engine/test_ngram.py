"""The trigram table is Katz's: every context's probabilities sum to 1, and its best successors are exact."""

from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DraftlineError
from engine.katz import K, good_turing, write_table
from engine.ngram import NgramTable
from engine.ngram_file import HEAD

FINGERPRINT = "f" * 64


@st.composite
def corpora(draw):
    vocab_size = draw(st.integers(1, 7))
    token = st.integers(0, vocab_size - 1)
    documents = draw(st.lists(st.lists(token, max_size=40), max_size=5))
    return vocab_size, [np.array(d, dtype=np.uint32) for d in documents]


def table_of(folder: Path, documents, vocab_size: int) -> NgramTable:
    path = folder / "table"
    write_table(path, documents, vocab_size, FINGERPRINT)
    return NgramTable(path, FINGERPRINT)


def zipf_corpus(tokens: int, vocab_size: int, seed: int = 0) -> list[np.ndarray]:
    """Text with structure: each token is mostly a function of the last two, else Zipf-distributed."""
    noise = np.random.default_rng(seed)
    ids = np.minimum(noise.zipf(1.3, tokens) - 1, vocab_size - 1)
    for i in np.flatnonzero(noise.random(tokens) < 0.5):
        if i >= 2:
            ids[i] = (ids[i - 1] * 7 + ids[i - 2] * 3 + 1) % vocab_size
    return [part.astype(np.uint32) for part in np.array_split(ids, 20)]


def contexts(vocab_size: int) -> list[tuple[int, ...]]:
    return [(), *((v,) for v in range(vocab_size)), *product(range(vocab_size), repeat=2)]


@settings(max_examples=60, deadline=None)
@given(corpora())
def test_every_context_of_any_small_corpus_sums_to_one_with_no_token_impossible(tmp_path_factory, corpus):
    vocab_size, documents = corpus
    table = table_of(tmp_path_factory.mktemp("t"), documents, vocab_size)
    for context in contexts(vocab_size):
        law = table.distribution(context)
        assert law.sum() == pytest.approx(1, abs=1e-5)
        assert (law > 0).all()
        assert [table.probability(context, w) for w in range(vocab_size)] == pytest.approx(law, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(corpora(), st.integers(1, 9))
def test_top_is_the_head_of_the_sorted_distribution(tmp_path_factory, corpus, k):
    vocab_size, documents = corpus
    table = table_of(tmp_path_factory.mktemp("t"), documents, vocab_size)
    for context in contexts(vocab_size):
        tokens, scores = table.top(context, k)
        law = table.distribution(context)
        assert len(set(tokens)) == len(tokens) == min(k, vocab_size)
        assert scores == pytest.approx(law[tokens], rel=1e-9)
        assert scores == pytest.approx(sorted(law, reverse=True)[:k], rel=1e-9)


def test_a_larger_table_sums_to_one_and_its_top_is_exact_for_contexts_with_many_successors(tmp_path):
    vocab_size = 300
    table = table_of(tmp_path, zipf_corpus(60_000, vocab_size), vocab_size)
    sample = np.random.default_rng(1).integers(0, vocab_size, (150, 2)).tolist()
    crowded = [[u, v] for u in range(4) for v in range(4)]
    assert max((table.distribution(c) > 1e-3).sum() for c in crowded) > 2 * HEAD
    for context in [*sample, *crowded]:
        law = table.distribution(context)
        assert law.sum() == pytest.approx(1, abs=1e-5)
        for k in (1, 4, 8, HEAD, 2 * HEAD):
            tokens, scores = table.top(context, k)
            assert len(set(tokens)) == k
            assert scores == pytest.approx(law[tokens], rel=1e-9)
            assert scores == pytest.approx(np.sort(law)[::-1][:k], rel=1e-9)


def test_seen_trigrams_have_their_discounted_relative_frequency(tmp_path):
    documents = zipf_corpus(60_000, 300)
    table = table_of(tmp_path, documents, 300)
    trigrams = Counter(t for d in documents for t in zip(*(d[i:].tolist() for i in range(3)), strict=False))
    followed = Counter()
    for (u, v, _), count in trigrams.items():
        followed[u, v] += count
    discounts = good_turing(np.array(list(trigrams.values())))
    for (u, v, w), count in list(trigrams.items())[:2000]:
        kept = count * discounts[count - 1] if count <= K else count
        if table.probability((u, v), w) != pytest.approx(kept / followed[u, v], rel=1e-6):
            assert followed[u, v] > K  # nothing was discounted: one is added below the line
            assert table.probability((u, v), w) == pytest.approx(kept / (followed[u, v] + 1), rel=1e-6)


def test_an_unseen_context_backs_off_to_the_bigram_and_then_to_the_unigram(tmp_path):
    table = table_of(tmp_path, [np.array([0, 1, 2, 1, 2, 1, 3, 0])], 6)
    assert np.array_equal(table.distribution((5, 1)), table.distribution((1,)))
    assert np.array_equal(table.distribution((0, 5)), table.distribution(()))
    assert np.array_equal(table.distribution((4, 5)), table.distribution(()))
    assert table.top((5, 1), 2)[0] == table.top((1,), 2)[0] == [2, 3]


def test_an_unseen_successor_of_a_seen_context_has_its_share_of_the_discounted_mass(tmp_path):
    table = table_of(tmp_path, zipf_corpus(60_000, 300), 300)
    law, below = table.distribution((1, 2)), table.distribution((2,))
    unseen = np.isclose(law / below, np.median(law / below))
    assert unseen.sum() > 10
    assert law[~unseen].sum() < 1


def test_only_the_last_two_tokens_count_and_tokens_outside_the_vocabulary_are_unknown(tmp_path):
    table = table_of(tmp_path, [np.array([0, 1, 2, 0, 1, 3])], 4)
    assert table.top((3, 3, 0, 1), 3) == table.top((0, 1), 3)
    assert table.top((99, 1), 3) == table.top((1,), 3)
    assert table.top((1, 99), 3) == table.top((), 3)
    assert table.probability((99, -1), 2) == table.probability((), 2)


def test_an_empty_corpus_gives_the_uniform_law(tmp_path):
    table = table_of(tmp_path, [], 8)
    assert table.distribution((1, 2)) == pytest.approx(np.full(8, 1 / 8))
    assert len(table.top((1, 2), 3)[0]) == 3
    assert table.sizes == (8, 0, 0)


@pytest.fixture
def written(tmp_path) -> Path:
    path = tmp_path / "repository.trigram"
    write_table(path, zipf_corpus(2000, 50), 50, FINGERPRINT)
    return path


def refusal(path: Path, fingerprint: str = FINGERPRINT) -> str:
    with pytest.raises(DraftlineError) as caught:
        NgramTable(path, fingerprint).verify()
    message = str(caught.value)
    assert str(path) in message
    assert "run" in message or "with `model-setup trigram`" in message
    return message


def test_a_whole_table_verifies(written):
    NgramTable(written, FINGERPRINT).verify()


def test_a_table_of_another_tokenizer_is_refused(written):
    assert "another tokenizer" in refusal(written, "0" * 64)


def test_a_missing_an_empty_and_a_foreign_file_are_refused(written, tmp_path):
    assert "no trigram table" in refusal(tmp_path / "missing")
    written.write_bytes(b"")
    assert "cannot be read" in refusal(written)
    written.write_bytes(b"GGUF" * 4096)
    assert "not a trigram table" in refusal(written)


@pytest.mark.parametrize("kept", [20, 5000, -1])
def test_a_table_cut_short_is_refused_when_opened(written, kept):
    written.write_bytes(written.read_bytes()[:kept])
    with pytest.raises(DraftlineError, match=r"cut short|bytes instead of"):
        NgramTable(written, FINGERPRINT)


def test_another_format_version_and_a_damaged_header_are_refused_when_opened(written):
    data = bytearray(written.read_bytes())
    data[8] = 99
    written.write_bytes(data)
    assert "version 99" in refusal(written)
    data[8] = 1
    data[60] ^= 1
    written.write_bytes(data)
    assert "header" in refusal(written)


def test_a_flipped_bit_in_the_arrays_is_found_by_verify(written):
    data = bytearray(written.read_bytes())
    data[len(data) // 2] ^= 1
    written.write_bytes(data)
    assert "is damaged" in refusal(written)


def test_a_failed_write_leaves_the_old_table_and_no_rubbish(written, monkeypatch):
    before = written.read_bytes()

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(DraftlineError, match="No space left"):
        write_table(written, zipf_corpus(100, 50), 50, FINGERPRINT)
    assert written.read_bytes() == before
    assert list(written.parent.iterdir()) == [written]
