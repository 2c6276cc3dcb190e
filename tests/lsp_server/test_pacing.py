"""When requests wait, and how long; the clock is ours."""

from __future__ import annotations

import time

import pytest

from engine.request import CancelToken
from lsp_server.pacing import PAUSE, QUICK, Deadline, Limited, Pace


class Typist:
    def __init__(self):
        self.now = 100.0
        self.pace = Pace(lambda: self.now)

    def type(self, *, after=1.0):
        self.now += after
        return self.pace.changed("u")

    def wait(self, *, idle=True):
        self.pace.requested("u")
        return self.pace.wait("u", idle)


@pytest.fixture
def typist():
    return Typist()


def test_without_a_change_nothing_waits(typist):
    assert typist.wait() == 0


def test_a_request_waits_until_the_pause_after_the_change_is_over(typist):
    typist.type()
    assert typist.wait() == pytest.approx(PAUSE)
    typist.now += PAUSE / 3
    assert typist.wait() == pytest.approx(PAUSE * 2 / 3)
    typist.now += PAUSE
    assert typist.wait() == 0


def test_a_quick_model_that_is_idle_is_asked_at_once(typist):
    typist.pace.took(QUICK / 2)
    typist.type()
    assert typist.wait() == 0
    assert typist.wait(idle=False) > 0


def test_even_a_quick_model_is_not_asked_at_each_change_of_a_burst(typist):
    typist.pace.took(QUICK / 2)
    typist.type()
    typist.type(after=0.05)
    assert typist.wait() > 0


def test_a_model_that_has_become_slow_is_waited_for_and_one_that_has_become_quick_is_not(typist):
    typist.pace.took(QUICK / 2)
    typist.pace.took(QUICK * 10)
    typist.type()
    assert typist.wait() > 0
    for _ in range(20):
        typist.pace.took(QUICK / 2)
    assert typist.wait() == 0


def test_a_pause_that_the_user_has_chosen_is_kept_however_quick_the_model_is(typist):
    typist.pace.took(QUICK / 10)
    typist.type()
    typist.wait()
    assert typist.pace.wait("u", idle=True, chosen=0.5) == pytest.approx(0.5)
    assert typist.pace.wait("u", idle=True, chosen=0.0) == 0


def test_a_turn_ends_with_the_next_request_or_change_and_when_the_document_is_closed(typist):
    for ending in (typist.pace.requested, typist.pace.changed, typist.pace.closed):
        turn = typist.pace.requested("u")
        other = typist.pace.requested("v")
        assert typist.pace.is_turn("u", turn)
        ending("u")
        assert not typist.pace.is_turn("u", turn)
        assert typist.pace.is_turn("v", other)


def test_a_client_that_has_not_asked_for_long_is_taken_not_to_want_suggestions(typist):
    typist.type()
    assert not typist.pace.is_asked("u")
    typist.wait()
    for _ in range(20):
        typist.type()
        assert typist.pace.is_asked("u")
    typist.type()
    assert not typist.pace.is_asked("u")


def test_a_limit_ends_with_its_request_or_with_its_time():
    request = CancelToken()
    assert Limited(request, Deadline(time.monotonic() - 1)).cancelled
    limited = Limited(request, Deadline(time.monotonic() + 1000))
    assert not limited.cancelled
    request.cancel()
    assert limited.cancelled
