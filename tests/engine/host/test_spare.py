"""A host that waits without a model."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.host import wire
from engine.host.spare import Spare
from engine.host.start import reach
from tests.engine.host.hosts import Desk, ended, loads, text, until

LINGER = 0.3


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ended(Desk(tmp_path, LINGER)) as it:
        yield it


def test_it_waits_until_it_is_needed_no_more(desk):
    spare = Spare(desk.place, desk.command)
    until(lambda: desk.process)
    process = desk.process
    time.sleep(3 * LINGER)
    assert desk.process == process
    spare.close()
    until(lambda: not psutil.pid_exists(process))


def test_it_has_the_model_that_is_wanted_next(desk):
    model = desk.model(answers={"a": "1"})
    spare = Spare(desk.place, desk.command)
    until(lambda: desk.process)
    process = desk.process
    engine = desk.open(model)
    spare.close()
    time.sleep(3 * LINGER)
    assert text(engine, "a") == "1"
    assert loads(model) == [process]


def test_another_follows_it_when_it_has_had_a_model_and_is_idle(desk):
    """A second window that waits, while the first has its model loaded and leaves it alone."""
    model = desk.model()
    spare = Spare(desk.place, desk.command)
    engine = desk.open(model, idle=LINGER)
    first = desk.process
    until(lambda: not psutil.pid_exists(first))
    until(lambda: desk.process)
    spare.close()
    engine.close()


def test_none_follows_one_that_was_stopped(desk):
    spare = Spare(desk.place, desk.command)
    until(lambda: desk.process)
    process = desk.process
    reach(desk.place, desk.command).send(wire.pack(wire.Stop()))
    until(lambda: not psutil.pid_exists(process))
    time.sleep(LINGER)
    assert desk.process is None
    spare.close()


def test_one_that_is_needed_no_more_before_it_is_there_leaves(desk):
    Spare(desk.place, desk.command).close()
    time.sleep(LINGER)
    until(lambda: desk.process is None)
