"""Step times, measured once a day and kept in a file that the caller names.

Measuring takes about a second of every start. The times belong to a machine and the shape of a model, not
to its weights' values, so the key holds what they depend on and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import math
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine.cost_model import StepTimes
from engine.reader import Reader

# A laptop that was busy, hot or on battery when it was measured has wrong times for a while. A day bounds
# that, and a second a day is not felt; a cleverer rule would have to tell a busy machine from a slow one.
KEPT_SECONDS = 24 * 3600
MOST_REPEATS = 3
FORGOTTEN_SECONDS = 30 * KEPT_SECONDS
# Of the processor time that its threads could have had an undisturbed measurement gets 0.99 (two cores, and
# threads that spin while they wait), one beside two busy processes 0.50.
UNDISTURBED = 0.9


def recall_or_measure(
    reader: Reader,
    rows: Sequence[int],
    weights: str,
    device: str,
    path: Path | None,
    settled: Callable[[], None],
) -> StepTimes:
    """The times of ``reader``'s forward pass for these row counts: from ``path``, or measured and put there.

    weights, device: how the model is held and where. path: None measures every time. settled: called before
    measuring, waits until the machine does nothing else. What cannot be read there, is old, or was measured
    on another machine is measured anew; that it cannot be written is no error. Times that cannot be true are
    measured a few times more, and the shortest taken. If they still cannot, or if others had the cores
    meanwhile, they are not kept, and old ones are better.
    """
    if path is None:
        return _measured(reader, rows, device, settled)[0]
    key = {
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "device": device,
        "weights": weights,
        "model": repr(reader.transformer.config),
        "rows": list(rows),
    }
    entries = _read(path)
    kept = next((entry for entry in entries if entry["key"] == key), None)
    if kept is not None and time.time() - kept["measured"] < KEPT_SECONDS:
        return _times(kept)
    times, good = _measured(reader, rows, device, settled)
    if not good and kept is not None:
        return _times(kept)
    if good:
        entries = [entry for entry in entries if entry is not kept]
        found = {"seconds": list(times.seconds), "text": times.text, "growth": list(times.growth)}
        entries.append({"key": key, "measured": time.time(), **found})
        _write(path, entries)
    return times


def _times(entry: dict[str, Any]) -> StepTimes:
    return StepTimes(
        tuple(entry["key"]["rows"]), tuple(entry["seconds"]), entry["text"], tuple(entry["growth"])
    )


def _measured(
    reader: Reader, rows: Sequence[int], device: str, settled: Callable[[], None]
) -> tuple[StepTimes, bool]:
    """The times, and whether they will do for a day."""
    settled()
    wall, processor = time.perf_counter(), time.process_time()
    times = reader.measure(rows)
    for _ in range(MOST_REPEATS):
        if _can_be_true(times.seconds):
            break
        again = reader.measure(rows)
        shortest = tuple(map(min, times.seconds, again.seconds))
        times = replace(times, seconds=shortest, growth=tuple(map(min, times.growth, again.growth)))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    # who computes on a GPU leaves the cores to others
    undisturbed = device != "cpu" or processor > UNDISTURBED * wall * torch.get_num_threads()
    return times, undisturbed and _can_be_true(times.seconds)


def processor() -> str:
    """What the processor calls itself; on a system that does not tell, its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        pass
    return platform.processor() or platform.machine()


def _read(path: Path) -> list[dict[str, Any]]:
    """The entries of ``path`` that can be used."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    return [entry for entry in content if _usable(entry)] if isinstance(content, list) else []


def _can_be_true(seconds: Sequence[float]) -> bool:
    """More rows never take much less. Where they seem to, others had the cores."""
    return all(later > 0.75 * max(seconds[: at + 1]) for at, later in enumerate(seconds[1:]))


def _usable(entry: Any) -> bool:
    try:
        seconds, growth, age = entry["seconds"], entry["growth"], time.time() - entry["measured"]
        # an age below 0: the clock was set back since, so nobody knows how old it is
        return (
            0 <= age < FORGOTTEN_SECONDS
            and len(seconds) == len(entry["key"]["rows"])
            and len(growth) in (0, len(seconds))
            and all(isinstance(second, float) and 0 < second < math.inf for second in seconds)
            and all(isinstance(second, float) and 0 <= second < math.inf for second in growth)
            and isinstance(entry["text"], int)
            and _can_be_true(seconds)
        )
    except (TypeError, KeyError, IndexError):
        return False


def _write(path: Path, entries: list[dict[str, Any]]) -> None:
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            json.dump(entries, file, indent=1)
        temporary.replace(path)
    except OSError:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
