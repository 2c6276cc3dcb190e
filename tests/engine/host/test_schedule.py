"""Whose turn it is: what somebody waits for, and of that the newest; no client's jobs touch another's."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.host.schedule import Job, Schedule
from engine.request import CancelToken


def job(client: str, request: int = 0, ahead: bool = False) -> Job:
    return Job(client, request, lambda cancel: None, CancelToken(ahead))


@pytest.fixture
def schedule() -> Schedule:
    return Schedule()


def order(schedule: Schedule, *jobs: Job) -> list[Job]:
    for one in jobs:
        schedule.add(one)
    return [found for _ in jobs if (found := schedule.next(0))]


def test_the_newest_goes_first_and_what_is_ahead_last(schedule):
    a, b, c, d = job("a"), job("b", ahead=True), job("c"), job("d", ahead=True)
    assert order(schedule, a, b, c, d) == [c, a, d, b]


def test_with_nothing_to_do_there_is_no_job(schedule):
    assert schedule.next(0) is None


def test_whoever_waits_is_woken(schedule):
    found: list[Job | None] = []
    waiting = threading.Thread(target=lambda: found.append(schedule.next(60)))
    waiting.start()
    schedule.add(job("a"))
    waiting.join(30)
    assert len(found) == 1


def test_a_request_ends_what_is_done_ahead_for_another(schedule):
    ahead = job("a", ahead=True)
    order(schedule, ahead)
    schedule.add(job("b", ahead=True))
    assert not ahead.cancel.cancelled
    schedule.add(job("a"))  # its own client cancels it, if it likes
    assert not ahead.cancel.cancelled
    schedule.add(job("b"))
    assert ahead.cancel.cancelled


def test_a_request_never_ends_what_somebody_waits_for(schedule):
    running = job("a")
    order(schedule, running)
    schedule.add(job("b"))
    assert not running.cancel.cancelled


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), max_size=12), st.data())
def test_every_job_comes_once_but_what_its_own_client_cancels(made, data):
    schedule = Schedule()
    jobs = [job(*one) for one in made]
    for one in jobs:
        schedule.add(one)
    client, request = data.draw(st.sampled_from("abc")), data.draw(st.none() | st.integers(0, 3))
    running = schedule.next(0) if data.draw(st.booleans()) else None
    given_up = schedule.cancel(client, request)
    for one in jobs:
        mine = one.client == client and request in (None, one.request)
        assert one.cancel.cancelled == mine
        assert (one in given_up) == (mine and one is not running)
    left = [one for one in jobs if one not in given_up]
    assert schedule.jobs_of(client) == sum(one.client == client for one in left)
    found = [running] if running else []
    while one := schedule.next(0):
        found.append(one)
    assert {id(one) for one in found} == {id(one) for one in left}
    assert len(found) == len(left)
    assert schedule.jobs_of(client) == 0
