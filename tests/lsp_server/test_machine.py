"""Threads and priority."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import psutil
import pytest

from lsp_server import machine


def pretend(monkeypatch, *, physical, logical, allowed):
    counts = {True: logical, False: physical}
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: counts[logical])
    process = (
        SimpleNamespace() if allowed is None else SimpleNamespace(cpu_affinity=lambda: [*range(allowed)])
    )
    monkeypatch.setattr(psutil, "Process", lambda: process)


@pytest.mark.parametrize(
    ("physical", "logical", "allowed", "cores"),
    [
        (8, 16, 16, 8),
        (8, 16, 2, 2),
        (8, 16, None, 8),  # macOS knows no affinity
        (None, 4, 4, 4),
        (None, None, None, 1),
    ],
)
def test_one_thread_for_each_physical_core_that_we_may_run_on(monkeypatch, physical, logical, allowed, cores):
    pretend(monkeypatch, physical=physical, logical=logical, allowed=allowed)
    assert machine.physical_cores() == cores


@pytest.mark.parametrize(("variable", "threads"), [({}, 3), ({"OMP_NUM_THREADS": "2"}, None)])
def test_omp_num_threads_is_respected(monkeypatch, variable, threads):
    import torch

    chosen = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in variable.items():
        monkeypatch.setenv(name, value)
    pretend(monkeypatch, physical=3, logical=6, allowed=6)
    machine.use_threads()
    assert chosen == ([threads] if threads else [])


def test_the_user_s_number_of_threads_stands_over_all(monkeypatch):
    import torch

    chosen = []
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    machine.use_threads(5)
    assert chosen == [5]


@pytest.mark.parametrize(
    ("battery", "in_use"),
    [
        (SimpleNamespace(power_plugged=False), True),
        (SimpleNamespace(power_plugged=True), False),
        (SimpleNamespace(power_plugged=None), False),  # the system does not tell
        (None, False),
    ],
)
def test_whether_the_machine_runs_on_its_battery(monkeypatch, battery, in_use):
    monkeypatch.setattr(psutil, "sensors_battery", lambda: battery, raising=False)
    assert machine.Battery().in_use == in_use


def test_where_psutil_knows_no_battery_there_is_none(monkeypatch):
    monkeypatch.delattr(psutil, "sensors_battery", raising=False)
    assert not machine.Battery().in_use


def test_the_battery_is_looked_at_now_and_then_only(monkeypatch):
    looks = []
    now = [0.0]
    monkeypatch.setattr(psutil, "sensors_battery", lambda: looks.append(now[0]), raising=False)
    battery = machine.Battery(lambda: now[0])
    for now[0] in (0.0, 1.0, 9.0, 10.0, 12.0):
        assert not battery.in_use
    assert looks == [0.0, 10.0]


def test_the_server_lets_others_go_first():
    program = (
        "import psutil; from lsp_server.machine import step_back; before = psutil.Process().nice(); "
        "step_back(); step_back(); print(before, psutil.Process().nice())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = (int(word) for word in ran.stdout.split())
    if os.name == "nt":
        assert after == psutil.BELOW_NORMAL_PRIORITY_CLASS
    else:
        assert after == max(before, 5)


def test_where_priorities_are_not_ours_to_change_we_run_as_we_are(monkeypatch):
    def refuse(value=None):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "Process", lambda: SimpleNamespace(nice=refuse))
    machine.step_back()
