"""A host that waits without a model."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.errors import DraftlineError
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
    # by then it is there, or will never be
    until(lambda: "spare" not in [thread.name for thread in threading.enumerate()])
    until(lambda: desk.process is None)


def test_it_does_not_keep_a_model_whose_windows_have_gone(desk):
    engine = desk.open(desk.model(), idle=60)
    process = desk.process
    spare = Spare(desk.place, desk.command)
    engine.close()
    until(lambda: not psutil.pid_exists(process))
    until(lambda: desk.process)  # the spare's own
    spare.close()


def test_a_host_that_has_dropped_its_models_makes_room_for_one_that_had_none(desk):
    """One is idle while another is being loaded, which fails."""
    idle, refused = desk.model("idle"), desk.model("refused", load_seconds=4 * LINGER, load="It is damaged.")
    engine = desk.open(idle, idle=LINGER)
    process = desk.process
    spare = Spare(desk.place, desk.command)
    with pytest.raises(DraftlineError, match="damaged"):
        desk.open(refused)
    until(lambda: desk.process not in (None, process))
    spare.close()
    engine.close()


def test_those_that_came_and_went_leave_nothing_in_the_host(desk):
    engine = desk.open(desk.model(answers={"a": "1"}))
    host = psutil.Process(desk.process)
    reach(desk.place, desk.command).hang_up()
    time.sleep(LINGER)
    before = host.num_threads()
    for _ in range(5):
        reach(desk.place, desk.command).hang_up()
    until(lambda: host.num_threads() <= before)
    assert text(engine, "a") == "1"
