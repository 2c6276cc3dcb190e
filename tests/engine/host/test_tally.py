"""Figures of the last hour."""

from __future__ import annotations

from engine.host.tally import Done, Tally


def test_an_hour_is_counted_and_then_forgotten():
    now = 0.0
    tally = Tally(lambda: now)
    for minute in range(90):
        now = minute * 60.0
        tally.add(Done(1, 10, 4, 0.5))
        tally.add(Done(1, 10, 4, 0.5))
    assert tally.sum() == Done(120, 1200, 480, 60.0)
    now += 1800
    assert tally.sum().requests == 60
    now += 3600
    assert tally.sum() == Done()


def test_minutes_without_anything_are_no_minutes():
    now = 0.0
    tally = Tally(lambda: now)
    for hour in range(70):
        now = hour * 3600.0
        tally.add(Done(1, 2, 1, 0.5))
    assert tally.sum() == Done(1, 2, 1, 0.5)
