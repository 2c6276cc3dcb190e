"""Drawing tokens: the processed distribution, and noise that depends on seed, position and token alone."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from engine import sampling
from engine.errors import DraftlineError
from engine.sampling import Row, Sampler

logits_rows = arrays.arrays(
    np.float32, st.integers(1, 40), elements=st.floats(-30, 30, width=32).map(lambda x: round(x))
)


def naive(logits, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """[vocab]: sort everything, cut, normalise. Of equal logits the smaller id comes first."""
    order = np.lexsort((np.arange(len(logits)), -logits))
    scaled = (logits.astype(np.float64) - logits.max()) / temperature
    p = np.exp(scaled)
    if top_k:
        p[order[top_k:]] = 0
    p /= p.sum()
    reached = np.cumsum(p[order])
    if top_p < 1:
        p[order[1:][reached[:-1] >= top_p]] = 0
    return p / p.sum()


@given(logits_rows, st.floats(0.2, 2.0), st.integers(0, 45), st.floats(0.05, 1.0))
def test_the_processed_distribution_is_temperature_then_top_k_then_top_p(logits, temperature, top_k, top_p):
    law = Sampler(temperature, top_k, top_p).distribution(logits)
    dense = np.zeros(len(logits))
    dense[law.ids] = law.p
    expected = naive(logits, temperature, top_k, top_p)
    assert law.p.sum() == pytest.approx(1)
    # where a cumulated sum meets top_p to the last bit, either side may be kept
    if np.abs(np.cumsum(np.sort(naive(logits, temperature, top_k, 1.0))[::-1]) - top_p).min() > 1e-9:
        assert dense == pytest.approx(expected, abs=1e-12)


@given(logits_rows)
def test_greedy_takes_the_first_of_the_largest(logits):
    assert Sampler().choose(Row(logits), 0) == int(np.flatnonzero(logits == logits.max())[0])


@given(logits_rows, st.integers(0, 2**40), st.integers(0, 5000))
def test_the_same_seed_and_position_give_the_same_token(logits, seed, position):
    first, second = Sampler(0.9, seed=seed), Sampler(0.9, seed=seed)
    second.choose(Row(logits), position + 1)  # nothing that was drawn before matters
    assert first.choose(Row(logits), position) == second.choose(Row(logits), position)


def test_noise_differs_by_seed_position_token_and_stream():
    ids = np.arange(2000)
    base = Sampler(1.0, seed=1).noise(7, ids)
    others = [
        Sampler(1.0, seed=2).noise(7, ids),
        Sampler(1.0, seed=1).noise(8, ids),
        Sampler(1.0, seed=1).noise(7, ids, stream=1),
    ]
    for other in others:
        assert abs(np.corrcoef(base, other)[0, 1]) < 0.1
    assert len(set(base.tolist())) == len(ids)
    assert base.mean() == pytest.approx(np.euler_gamma, abs=0.15)


def test_noise_of_a_token_does_not_depend_on_which_others_are_asked_for():
    sampler = Sampler(1.0, seed=3)
    whole = sampler.noise(11, np.arange(100))
    assert sampler.noise(11, np.array([5, 50])).tolist() == whole[[5, 50]].tolist()


@pytest.mark.parametrize(("temperature", "top_k", "top_p"), [(1.0, 0, 1.0), (0.5, 3, 1.0), (1.5, 0, 0.8)])
def test_draws_follow_the_processed_law(temperature, top_k, top_p):
    logits = np.log(np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04], dtype=np.float32))
    sampler = Sampler(temperature, top_k, top_p, seed=5)
    draws = 20_000
    counts = np.bincount([sampler.choose(Row(logits), position) for position in range(draws)], minlength=6)
    law = sampler.distribution(logits)
    expected = np.zeros(6)
    expected[law.ids] = law.p * draws
    assert counts[expected == 0].sum() == 0
    kept = expected > 0
    chi_square = ((counts[kept] - expected[kept]) ** 2 / expected[kept]).sum()
    assert chi_square < 25  # p < 0.001 at 6 degrees of freedom is 22.5


@given(logits_rows, st.sampled_from([0.0, 0.7, 1.3]), st.integers(1, 6), st.integers(0, 99))
def test_the_likeliest_tokens_begin_with_the_chosen_one(logits, temperature, k, position):
    sampler = Sampler(temperature, seed=9)
    ranked = sampler.likeliest(Row(logits), position, k)
    assert ranked[0][0] == sampler.choose(Row(logits), position)
    assert len({token for token, _ in ranked}) == len(ranked) <= k
    chances = [chance for _, chance in ranked]
    assert chances == sorted(chances, reverse=True)
    assert 0 < sum(chances) <= 1 + 1e-9


@given(logits_rows, st.integers(1, 45), st.sampled_from([1, 4, 256]))
def test_the_largest_values_come_first_and_of_equals_the_first(values, k, block):
    with mock.patch.object(sampling, "_BLOCK", block):
        found = sampling._likeliest(values, k)
    assert found.tolist() == np.lexsort((np.arange(len(values)), -values))[:k].tolist()


@given(logits_rows, st.sampled_from([0.0, 0.7]), st.data())
def test_a_token_of_no_chance_is_neither_drawn_nor_among_the_likeliest(logits, temperature, data):
    """As a draft with a trimmed vocabulary says of the tokens it does not know."""
    said = data.draw(st.integers(0, len(logits) - 1))
    known = {said, *data.draw(st.sets(st.integers(0, len(logits) - 1)))}
    logits = np.where(np.isin(np.arange(len(logits)), list(known)), logits, np.float32(-np.inf))
    sampler = Sampler(temperature, seed=4)
    assert sampler.choose(Row(logits), 0) in known
    assert set(sampler.distribution(logits).ids) <= known
    assert {token for token, _ in sampler.likeliest(Row(logits), 0, 4)} <= known


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_refused(bad):
    logits = np.array([0.0, bad], dtype=np.float32)
    for sampler in (Sampler(), Sampler(temperature=0.8)):
        with pytest.raises(DraftlineError, match="not numbers"):
            sampler.choose(Row(logits), 0)
        with pytest.raises(DraftlineError, match="not numbers"):
            sampler.likeliest(Row(logits), 0, 2)


@given(logits_rows)
def test_next_to_zero_the_temperature_is_greedy(logits):
    with np.errstate(all="raise"):
        law = Sampler(temperature=1e-310).distribution(logits)
    assert list(law.ids) == list(np.flatnonzero(logits == logits.max()))
