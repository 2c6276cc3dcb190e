"""Starting a host: what is waited for, and for how long."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace

import pytest

from engine.host import start
from engine.host.line import Gone, Silent
from engine.host.place import Place


@pytest.mark.parametrize(("answer", "seconds"), [(Silent, 10.0), (Gone, 0.0)])
def test_a_host_that_was_started_has_a_minute_to_answer(tmp_path, monkeypatch, answer, seconds):
    """However long each try takes: all other windows wait behind this one."""
    now, tries = [0.0], itertools.count()

    def dial(address, key):
        if next(tries) == 0:
            raise Gone  # so there is none yet
        now[0] += seconds
        raise answer

    def pause(seconds):
        now[0] += seconds

    clock = SimpleNamespace(time=time.time, monotonic=lambda: now[0], sleep=pause)
    monkeypatch.setattr(start, "time", clock)
    monkeypatch.setattr(start, "dial", dial)
    monkeypatch.setattr(start, "_launch", lambda *_: SimpleNamespace(poll=lambda: None))
    with pytest.raises(start.Unreachable, match="answer"):
        start.reach(Place(tmp_path / "host"), [])
    assert now[0] < 100


def test_a_place_that_cannot_be_made_is_told_as_what_it_is(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(start.Unreachable, match="DRAFTLINE_HOME") as raised:
        start.reach(Place(tmp_path / "file" / "host"), [])
    assert str(tmp_path / "file") in str(raised.value)
