"""`draftline status` and `draftline stop` where a host, or what is in its folder, is not as it should be."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.host import line
from engine.host.place import Place
from lsp_server.host_command import show_status, stop
from tests.engine.host.hosts import Desk, desk_of_servers, until

posix = pytest.mark.skipif(sys.platform == "win32", reason="no process can be halted there")


@pytest.fixture
def desk(scratch_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    patient = line.greet
    monkeypatch.setattr(line, "greet", lambda pipe, key, first: patient(pipe, key, first, seconds=0.3))
    with desk_of_servers(scratch_home) as it:
        yield it


@posix
def test_a_host_that_hangs_is_told_of_and_ended(desk, capsys):
    desk.open(desk.model())
    host = psutil.Process(desk.process)
    host.send_signal(signal.SIGSTOP)
    assert show_status(as_json=False) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"Draftline's engine does not answer (process {host.pid}); end it with `draftline stop`.\n"
    assert show_status(as_json=True) == 2
    assert json.loads(capsys.readouterr().out) == []
    assert stop() == 0
    assert capsys.readouterr() == ("The engine has ended.\n", "")
    until(lambda: not host.is_running() or host.status() == psutil.STATUS_ZOMBIE)


@posix
@pytest.mark.parametrize("lost", ["key", "socket"])
def test_a_host_that_nobody_can_reach_any_more_is_told_of_and_ended(desk, lost, capsys):
    desk.open(desk.model())
    host = psutil.Process(desk.process)
    (desk.place.folder / "key" if lost == "key" else Path(desk.place.address)).unlink()
    assert show_status(as_json=False) == 2
    out, err = capsys.readouterr()
    assert (out, f"process {host.pid}" in err) == ("", True)
    assert stop() == 0
    until(lambda: not host.is_running() or host.status() == psutil.STATUS_ZOMBIE)


def test_hosts_of_two_versions_are_shown_beside_each_other_and_both_ended(desk, capsys):
    model, processes = desk.model(), []
    for version in ("1.0", "2.0"):
        desk.place = Place.of(desk.home, version)
        desk.open(model)
        processes.append(desk.process)
    assert show_status(as_json=True) == 0
    assert [told["process"] for told in json.loads(capsys.readouterr().out)] == processes
    assert stop() == 0
    until(lambda: not any(map(psutil.pid_exists, processes)))


@pytest.mark.parametrize("process", [None, "1", -1, 0, 1, 10**400, [1], True])
def test_garbage_in_the_folder_is_no_host(scratch_home, process, capsys):
    place = Place.of(scratch_home, "1.0")
    place.ready()
    (place.folder / "key").write_bytes(b"cut")
    Path(place.address).write_bytes(b"")
    place.write("host", {"process": process})
    (scratch_home / "host" / "a file").write_bytes(b"")
    assert show_status(as_json=False) == stop() == 0
    out, err = capsys.readouterr()
    assert out.count("No model is loaded") == 2
    assert err == ""
