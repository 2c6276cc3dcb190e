"""Many texts sampled side by side: each is what sampling it alone gives, and follows the model's law."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.checkpoint import load_checkpoint
from engine.errors import DraftlineError
from engine.generation import sample_texts, slots_needed
from engine.reader import Reader
from engine.request import CancelToken
from engine.sampling import Row, Sampler
from engine.transformer import Transformer
from tests.engine.tiny_models import SIZES, TOKENS, CancelAtLook, linear_logits, write_model

ROOM = 1000
LENGTH = 8
SAMPLER = Sampler(temperature=1.5, seed=7)

token_ids = st.integers(0, TOKENS - 1)
all_starts = st.tuples(
    st.lists(token_ids, max_size=4), st.lists(st.lists(token_ids, min_size=1, max_size=5), max_size=6)
).map(lambda parts: [parts[0] + own for own in parts[1]])


@pytest.fixture(scope="module", params=["fp32", "int8"])
def transformer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transformer:
    directory: Path = write_model(tmp_path_factory.mktemp("models") / "tiny")
    return load_checkpoint(directory, request.param).transformer


def alone(
    model: Transformer, start: Sequence[int], text: int, eos_ids: Sequence[int] = (), length: int = LENGTH
) -> list[int]:
    """The definition: one token at a time, each drawn from the law after all before it."""
    cache = model.new_cache(SIZES["max_position_embeddings"])
    logits = linear_logits(model, start, cache)[-1]
    output: list[int] = []
    while len(output) < length:
        law = SAMPLER.distribution(logits.numpy())
        token = SAMPLER.draw(law, len(start) + len(output), stream=text)
        if token in eos_ids:
            break
        output.append(token)
        logits = linear_logits(model, [token], cache)[-1]
    return output


@settings(max_examples=25)
@given(starts=all_starts, first=st.integers(0, 9))
def test_each_text_is_what_sampling_it_alone_gives(transformer, starts, first):
    texts = sample_texts(Reader(transformer, ROOM), starts, LENGTH, SAMPLER, first=first)
    assert texts == [alone(transformer, start, first + i) for i, start in enumerate(starts)]


def test_starts_longer_than_one_pass_are_read_in_several(transformer):
    noise = np.random.default_rng(0)
    starts = [noise.integers(0, TOKENS, size).tolist() for size in (70, 1, 130, 64)]
    assert sample_texts(Reader(transformer, ROOM), starts, LENGTH, SAMPLER) == [
        alone(transformer, start, i) for i, start in enumerate(starts)
    ]


def test_a_text_ends_before_an_end_token_and_the_others_go_on(transformer):
    starts = [[token] for token in range(30)]
    eos_ids = set(range(0, TOKENS, 8))
    texts = sample_texts(Reader(transformer, ROOM), starts, LENGTH, SAMPLER, eos_ids)
    assert texts == [alone(transformer, start, i, eos_ids) for i, start in enumerate(starts)]
    assert {0, LENGTH} <= {len(text) for text in texts}
    assert not eos_ids & {token for text in texts for token in text}


def test_a_reader_that_was_used_before_gives_the_same_and_keeps_only_the_shared_beginning(transformer):
    starts = [[5, 6, 7, 8], [5, 6, 9]]
    fresh = sample_texts(Reader(transformer, ROOM), starts, LENGTH, SAMPLER)
    reader = Reader(transformer, ROOM)
    sample_texts(reader, [[5, 1], [5, 2, 3]], LENGTH, SAMPLER)
    assert sample_texts(reader, starts, LENGTH, SAMPLER) == fresh
    assert (reader.text, reader.cache.length) == ([5, 6], 2)


def test_the_first_token_follows_the_law_at_this_temperature_and_texts_are_independent(transformer):
    """Chi-square over 4,000 texts, rare tokens as one class; then the same over pairs of neighbours."""
    start, number = [3, 1, 4], 4000
    law = SAMPLER.distribution(linear_logits(transformer, start, transformer.new_cache(8))[-1].numpy())
    dense = np.zeros(TOKENS)
    dense[law.ids] = law.p
    reader = Reader(transformer, 128 * (len(start) + 1))
    drawn: list[int] = []
    while len(drawn) < number:
        drawn += [token for (token,) in sample_texts(reader, [start] * 125, 1, SAMPLER, first=len(drawn))]
    classes = np.argsort(np.argsort(-dense)).clip(max=9)
    p = np.bincount(classes, dense)
    singles = np.bincount(classes[drawn], minlength=10)
    pairs = np.bincount(classes[drawn[::2]] * 10 + classes[drawn[1::2]], minlength=100)
    # 99.99 % quantiles of chi-square with 9 and 99 degrees of freedom
    assert (((singles - number * p) ** 2) / (number * p)).sum() < 33.7
    expected = number / 2 * np.outer(p, p).ravel()
    assert (((pairs - expected) ** 2) / expected).sum() < 160.1


def test_nothing_comes_of_a_cancelled_run_and_the_reader_is_as_good_as_fresh(transformer):
    starts = [[5, 6, 7], [5, 6, 9]]
    reader = Reader(transformer, ROOM)
    for looks in range(LENGTH):
        assert sample_texts(reader, starts, LENGTH, SAMPLER, cancel=CancelAtLook(looks)) == []
    assert sample_texts(reader, starts, LENGTH, SAMPLER, cancel=CancelToken()) == [
        alone(transformer, start, i) for i, start in enumerate(starts)
    ]


def test_no_text_no_length_an_empty_start_and_too_little_room(transformer):
    reader = Reader(transformer, 2 * (LENGTH + 3))
    assert sample_texts(reader, [], LENGTH, SAMPLER) == []
    assert sample_texts(reader, [[1], [2]], 0, SAMPLER) == [[], []]
    with pytest.raises(ValueError, match="token to start from"):
        sample_texts(reader, [[1], []], LENGTH, SAMPLER)
    starts = [[1, 2, 3], [4, 5, 6]]
    assert slots_needed(starts, LENGTH) == reader.cache.capacity
    assert len(sample_texts(reader, starts, LENGTH, SAMPLER)) == 2
    with pytest.raises(ValueError, match="do not fit"):
        sample_texts(reader, [*starts, [7]], LENGTH, SAMPLER)


def test_values_that_are_not_numbers_are_refused(transformer):
    class Broken(Reader):
        def rows(self, *arguments):
            return [Row(np.full(TOKENS, np.nan, dtype=np.float32))] * 2

    with pytest.raises(DraftlineError, match="not numbers"):
        sample_texts(Broken(transformer, ROOM), [[1], [2]], LENGTH, SAMPLER)
