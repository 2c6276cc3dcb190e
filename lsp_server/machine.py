"""How much of the machine we take: its physical cores, but after the editor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import psutil

_NICE = 5
_BATTERY_SECONDS = 10.0  # between two looks at the battery


def use_threads(chosen: int | None = None) -> None:
    """Let PyTorch compute on ``chosen`` threads.

    None: on as many as OMP_NUM_THREADS says, else on as many as there are cores for us. Two threads on one
    core read the weights no faster than one, and get in each other's way.
    """
    import torch

    if chosen is not None:
        torch.set_num_threads(chosen)
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(physical_cores())


def physical_cores() -> int:
    """Of the processors that this process may run on, how many are cores of their own; at least 1."""
    process = psutil.Process()
    allowed = len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else psutil.cpu_count()
    cores = psutil.cpu_count(logical=False) or allowed  # None in some containers
    return max(1, min(cores or 1, allowed or 1))


def step_back() -> None:
    """Let the editor and what the user runs go first where the processors are busy."""
    process = psutil.Process()
    try:
        if sys.platform == "win32":
            process.nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
        elif process.nice() < _NICE:
            process.nice(_NICE)
    except (OSError, psutil.Error):
        pass  # where that is not allowed we run as we are


class Battery:
    """Whether the machine runs on its battery."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked: float | None = None
        self._in_use = False

    @property
    def in_use(self) -> bool:
        """As far as the system tells; looked at now and then only."""
        now = self._clock()
        if self._looked is None or now - self._looked >= _BATTERY_SECONDS:
            self._looked, self._in_use = now, _on_battery()
        return self._in_use


def _on_battery() -> bool:
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError, psutil.Error):
        return False  # psutil knows none on this system
    return battery is not None and battery.power_plugged is False
