"""How long reading a prompt takes is learned, and who waits gets a shorter prompt where that is too long."""

from __future__ import annotations

import time

import pytest

from engine.request import CancelToken, SamplingParams
from lsp_server.documents import Cursor, split_lines
from lsp_server.pacing import Deadline, Limited
from lsp_server.prompt_budget import USUAL_BUDGET
from lsp_server.prompt_head import NOWHERE
from lsp_server.reading import Reading
from lsp_server.writer import EngineWriter
from tests.lsp_server.scripted_engine import ScriptedEngine

PROMPT = list(range(1000))
PER_TOKEN = 0.0025  # seconds
LINES = split_lines("".join(f"name_{number} = {number}\n" for number in range(400)))
CURSOR = Cursor(300, 0)


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def read(reading, clock, prompt, seconds, whole=True):
    reading.begins(prompt)
    clock.now += seconds
    reading.ends(whole)


def test_before_anything_was_read_it_is_as_told(clock):
    assert Reading(0.003, clock).seconds(PROMPT) == pytest.approx(3.0)


def test_how_long_a_token_takes_is_learned_from_long_prompts(clock):
    reading = Reading(PER_TOKEN, clock)
    for _ in range(12):
        read(reading, clock, PROMPT, 5.0)
        read(reading, clock, [-1, *PROMPT], 5.005)
    assert reading.seconds([-2, *PROMPT]) == pytest.approx(5.005, rel=0.01)


def test_what_few_tokens_take_tells_nothing_of_many(clock):
    reading = Reading(PER_TOKEN, clock)
    before = reading.seconds(PROMPT)
    read(reading, clock, PROMPT[:10], 5.0)
    assert reading.seconds(list(reversed(PROMPT))) == before


def test_only_what_is_new_has_to_be_read(clock):
    reading = Reading(PER_TOKEN, clock)
    read(reading, clock, PROMPT, 1.0)
    assert reading.seconds(PROMPT) == 0
    assert reading.seconds([*PROMPT, 1]) == reading.seconds([1]) > 0
    assert reading.seconds([*PROMPT[:500], *PROMPT[:500]]) == pytest.approx(500 * reading.seconds([1]))


def test_of_what_was_broken_off_as_much_is_read_as_there_was_time_for(clock):
    reading = Reading(PER_TOKEN, clock)
    for _ in range(12):
        read(reading, clock, PROMPT, 1.0)
        read(reading, clock, [-1], 0.0)
    read(reading, clock, PROMPT, 0.25, whole=False)
    assert reading.seconds(PROMPT) == pytest.approx(0.75, rel=0.02)


@pytest.mark.parametrize(("taken", "learned"), [(1.0, 2.5), (4.0, 4.0), (3600.0, 5.0)])
def test_what_was_broken_off_after_its_time_takes_longer_but_perhaps_the_machine_slept(clock, taken, learned):
    reading = Reading(PER_TOKEN, clock)
    read(reading, clock, PROMPT, taken, whole=False)
    assert reading.seconds([-1] * 1000) == pytest.approx(learned)


def test_of_what_takes_longer_not_all_was_read_and_waiting_for_the_engine_is_not_learned_for_ever(clock):
    reading = Reading(PER_TOKEN, clock)
    read(reading, clock, PROMPT, 5.0, whole=False)
    assert reading.seconds(PROMPT) == pytest.approx(500 * 0.005)
    for number in range(6):
        read(reading, clock, [number - 10, *PROMPT], 2.0**number, whole=False)
    assert reading.seconds([-1] * 1000) <= 5.0


def test_what_is_shorter_than_what_was_read_before_takes_its_place_even_if_broken_off(clock):
    reading = Reading(PER_TOKEN, clock)
    read(reading, clock, PROMPT, 1.0)
    read(reading, clock, PROMPT[:500], 0.0, whole=False)
    assert reading.seconds(PROMPT) == pytest.approx(500 * reading.seconds([-1]))


def test_what_was_not_begun_does_not_end(clock):
    reading = Reading(PER_TOKEN, clock)
    read(reading, clock, PROMPT, 1.0)
    clock.now += 100.0
    reading.ends(whole=False)
    assert reading.seconds(PROMPT) == 0


class SlowReader(ScriptedEngine):
    """Takes a millisecond for each token that did not begin the prompt before."""

    reading_seconds = 0.001

    def generate(self, prompt_ids, params, cancel=None, context_ids=None, begins_with=""):
        before = self.prompts[-1] if self.prompts else []
        same = next((at for at, (old, new) in enumerate(zip(before, prompt_ids)) if old != new), len(before))  # noqa: B905
        time.sleep((len(prompt_ids) - same) / 1000)
        yield from super().generate(prompt_ids, params, cancel, context_ids, begins_with)


def ask(writer, seconds=None, cursor=CURSOR, lines=LINES):
    """The prompt's length, and whether that is a shortened one."""
    cancel = CancelToken()
    limited = cancel if seconds is None else Limited(cancel, Deadline(time.monotonic() + seconds))
    writing = writer.write(lines, cursor, SamplingParams(8), limited, NOWHERE)
    for _ in writing.steps:
        pass
    return len(writer.engine.prompts[-1]), writing.short


def test_who_waits_gets_a_prompt_that_can_be_read_in_time():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    whole, short = ask(writer)
    assert not short
    assert whole > USUAL_BUDGET.prefix
    length, short = ask(writer, 0.5, Cursor(100, 0))
    assert short
    assert length < 2 / 3 * whole


def test_the_first_who_waits_gets_a_prompt_that_can_be_read_in_time_too():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    length, short = ask(writer, 0.5)
    assert short
    assert length <= 300


def test_who_can_wait_gets_all_of_it():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    assert ask(writer, 60.0) == ask(writer)


def test_what_was_read_already_is_not_shortened():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    whole, _ = ask(writer)
    assert ask(writer, 0.5) == (whole, False)


def test_a_shortened_prompt_begins_the_same_while_the_user_types():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    writer._reading._per_token = 1 / 1000
    ask(writer, 0.5)
    first = writer.engine.prompts[-1]
    lines = list(LINES)
    lines[300] = "na" + lines[300]
    assert ask(writer, 0.5, Cursor(300, 2), lines)[1]
    text_above = first[: first.index(258) - 8]
    assert writer.engine.prompts[-1][: len(text_above)] == text_above


def test_once_all_of_it_was_read_ahead_it_is_what_is_used():
    writer = EngineWriter(SlowReader(lambda prefix, suffix: "x"))
    assert ask(writer, 0.5)[1]
    writer.read_ahead(LINES, CURSOR, CancelToken(), NOWHERE)
    assert not ask(writer, 0.5)[1]
