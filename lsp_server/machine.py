"""How much of the machine we take: its physical cores, but after the editor."""

from __future__ import annotations

import os
import sys

import psutil

_NICE = 5


def use_physical_cores() -> None:
    """Let PyTorch compute on as many threads as there are cores for us, unless OMP_NUM_THREADS says how many.

    Two threads on one core read the weights no faster than one, and get in each other's way.
    """
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
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
