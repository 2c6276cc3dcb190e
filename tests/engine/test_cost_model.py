"""The tree is as large as yields the most tokens a second, down to no tree at all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cost_model import (
    AcceptanceStatistics,
    BestSize,
    StepTimes,
    best_gamma,
    best_size,
    expected_tokens,
    improvement_factor,
    operations_factor,
)

TIMES = StepTimes((1, 2, 4, 8), (1.0, 1.5, 2.0, 6.0))

step_times = st.lists(st.tuples(st.integers(2, 40), st.floats(0.01, 10.0)), min_size=1, max_size=8).map(
    lambda points: StepTimes(*zip(*sorted(dict([(1, 1.0), *points]).items()), strict=True))
)
scores = st.lists(st.floats(0.0, 1.0), max_size=31).map(lambda values: sorted(values, reverse=True))


@pytest.mark.parametrize(("rows", "seconds"), [(1, 1.0), (2, 1.5), (4, 2.0), (8, 6.0)])
def test_a_measured_row_count_takes_what_was_measured(rows, seconds):
    assert TIMES(rows) == pytest.approx(seconds)


@pytest.mark.parametrize(("rows", "seconds"), [(3, 1.75), (5, 3.0), (6, 4.0), (7, 5.0)])
def test_between_two_measurements_is_a_straight_line(rows, seconds):
    assert TIMES(rows) == pytest.approx(seconds)


def test_beyond_the_last_measurement_the_line_goes_on():
    assert TIMES(10) == pytest.approx(8.0)


def test_beyond_the_last_measurement_more_rows_never_take_less():
    times = StepTimes((1, 16, 32), (1.0, 2.0, 1.5))
    assert times(24) == 1.75
    assert times(100) == 1.5


def test_behind_a_longer_text_each_row_takes_longer():
    times = StepTimes((1, 8), (1.0, 2.0), text=256, growth=(0.0, 0.001))
    assert [times.behind(256)(rows) for rows in (1, 8)] == [1.0, 2.0]
    assert [times.behind(1280)(rows) for rows in (1, 8)] == [1.0, pytest.approx(3.024)]
    assert times.behind(0)(8) == pytest.approx(1.744)
    guesses = [0.3, 0.25, 0.2, 0.2, 0.15, 0.1, 0.1]
    assert best_size(guesses, times.behind(256)) > best_size(guesses, times.behind(1280))


def test_without_a_measured_growth_the_text_s_length_does_not_matter():
    assert TIMES.behind(2000) is TIMES


def test_a_growth_that_cannot_be_true_leaves_some_time():
    assert StepTimes((1, 2), (1.0, 1.0), text=256, growth=(1.0, 1.0)).behind(0)(1) == 0.5


@given(scores, step_times)
def test_the_best_size_is_the_best_of_all(scores, times):
    """By the definition: n guesses give one token and the sum of their chances, in the time of n + 1 rows."""
    reachable = scores[: times.rows[-1] - 1]  # further on the line could fall below no time at all
    rates = [(1 + sum(reachable[:count])) / times(count + 1) for count in range(len(reachable) + 1)]
    assert rates[best_size(reachable, times)] == pytest.approx(max(rates))


@given(scores, step_times)
def test_what_is_not_added_because_it_could_not_pay_would_not_have_paid(scores, times):
    """The growth that stops early finds the best of all sizes nevertheless."""
    reachable = scores[: times.rows[-1] - 1]
    size = BestSize(times)
    for at, score in enumerate(reachable):
        if not size.could_grow(score, len(reachable) - at):
            break
        size.add(score)
    assert size.best == best_size(reachable, times)


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 3))
def test_the_rate_is_that_of_the_best_size_with_what_its_guesses_took(scores, spent):
    ranked = sorted(scores, reverse=True)
    rates = [(1 + sum(ranked[:size])) / (spent + TIMES(1 + size)) for size in range(len(ranked) + 1)]
    assert BestSize(TIMES, scores, spent).rate == pytest.approx(max(rates))


def test_growth_stops_where_guesses_are_poor():
    size = BestSize(TIMES, [0.9])
    assert size.could_grow(0.8, 10)
    assert not size.could_grow(0.1, 10)


def test_guesses_that_cost_nothing_all_pay():
    assert best_size([0.5, 0.1, 0.01], StepTimes((1, 8), (1.0, 1.0))) == 3


def test_guesses_without_a_chance_do_not_pay_even_for_free():
    assert best_size([0.0, 0.0], StepTimes((1, 8), (1.0, 1.0))) == 0


def test_where_each_row_costs_a_step_nothing_pays():
    assert best_size([0.99, 0.98, 0.97], StepTimes((1, 8), (1.0, 8.0))) == 0


def test_a_second_guess_may_pay_where_the_first_alone_does_not():
    """Two rows cost as much as four: then three guesses or none."""
    assert best_size([0.6, 0.5, 0.4], StepTimes((1, 2, 4), (1.0, 2.0, 2.0))) == 3


def test_no_guess_means_no_tree():
    assert best_size([], TIMES) == 0


def test_an_unseen_feature_has_the_chance_that_it_came_with():
    assert AcceptanceStatistics().estimate(("lookup", 0), 0.3) == pytest.approx(0.3)


@pytest.mark.parametrize(("prior", "share"), [(0.1, 0.9), (0.9, 0.1), (0.5, 0.5)])
def test_the_chance_moves_from_the_prior_to_what_was_observed(prior, share):
    statistics = AcceptanceStatistics()
    distances = []
    for index in range(400):
        statistics.observe("feature", index % 10 < share * 10)
        if index % 10 == 9:
            distances.append(abs(statistics.estimate("feature", prior) - share))
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.03
    assert statistics.estimate("another", prior) == pytest.approx(prior)


@given(st.lists(st.booleans(), max_size=60), st.floats(0.0, 1.0))
def test_a_chance_is_between_0_and_1_whatever_was_seen(outcomes, prior):
    statistics = AcceptanceStatistics()
    for outcome in outcomes:
        statistics.observe("feature", outcome)
    assert 0.0 <= statistics.estimate("feature", prior) <= 1.0


# The formulas of Leviathan et al. 2022, against the numbers that the paper works out


@pytest.mark.parametrize(
    ("alpha", "gamma", "faster", "operations"),
    [(0.6, 2, 1.96, 1.53), (0.8, 5, 3.69, 1.63), (0.9, 10, 6.86, 1.60)],
)
def test_improvement_and_operations_are_the_papers(alpha, gamma, faster, operations):
    assert improvement_factor(alpha, gamma, 0) == pytest.approx(faster, abs=0.005)
    assert operations_factor(alpha, gamma, 0) == pytest.approx(operations, abs=0.006)


def test_the_predicted_speed_up_is_the_papers():
    assert improvement_factor(0.75, 7, 0.02) == pytest.approx(3.2, abs=0.05)


@given(st.floats(0.05, 0.95), st.integers(0, 12))
def test_expected_tokens_are_the_mean_of_the_capped_geometric_law(alpha, gamma):
    law = [alpha**n * (1 - alpha) for n in range(gamma)] + [alpha**gamma]
    assert expected_tokens(alpha, gamma) == pytest.approx(sum(p * (n + 1) for n, p in enumerate(law)))


@given(st.floats(0.05, 0.95), st.floats(0.01, 0.9))
def test_the_best_gamma_is_no_worse_than_its_neighbours(alpha, c):
    gamma = best_gamma(alpha, c)
    for other in (max(gamma - 1, 0), gamma + 1, 0):
        assert improvement_factor(alpha, gamma, c) >= improvement_factor(alpha, other, c)
    assert abs(alpha - c) < 1e-9 or (gamma > 0) == (alpha > c)
