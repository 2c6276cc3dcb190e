"""Progress of long work: a bar on a terminal, a line now and then elsewhere. All on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.text import Text

_SECONDS_BETWEEN_LINES = 5.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    console.print(message, markup=False)


def duration(seconds: float) -> str:
    """As people say it: ``40 s``, ``5 min``, ``2 h 10 min``."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return " ".join(([f"{hours} h"] if hours else []) + ([f"{minutes} min"] if minutes or not hours else []))


Update = Callable[[int, int], None]
"""Called with how much is done, and how much there is in all."""


def bytes_progress(title: str, done: int = 0) -> AbstractContextManager[Update]:
    """Yields an Update that shows bytes, rate and time left; ``done`` bytes were there before."""
    return _progress(title, done, (DownloadColumn(), TransferSpeedColumn()), "MB", 1e6)


def count_progress(title: str, unit: str, done: int = 0) -> AbstractContextManager[Update]:
    """Likewise for a number of ``unit``, such as "tokens"."""
    counts = TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit), _SpeedColumn(unit)
    return _progress(title, done, counts, unit, 1)


@contextmanager
def fraction_progress() -> Iterator[Callable[[str, float], None]]:
    """Yields what shows the work that is being done, and the fraction of it that is; with the time left."""
    if not console.is_terminal:
        last = time.monotonic()

        def line(what: str, fraction: float) -> None:
            nonlocal last
            if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
                last = time.monotonic()
                say(f"{what}, {fraction:.0%}")

        yield line
        return
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, fraction: bar.update(task, description=what, completed=fraction)


class _SpeedColumn(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.{0 if speed >= 10 else 1}f} {self._unit}/s" if speed else "")


@contextmanager
def _progress(
    title: str, done: int, columns: Sequence[ProgressColumn], unit: str, scale: float
) -> Iterator[Update]:
    if not console.is_terminal:
        yield _lines(title, done, unit, scale)
        return
    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*shown, console=console) as bar:
        task = bar.add_task(title, total=None, completed=done)
        yield lambda now_done, total: bar.update(task, completed=now_done, total=total)


def _lines(title: str, start: int, unit: str, scale: float) -> Update:
    began = last = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _SECONDS_BETWEEN_LINES or done >= total or done <= start:
            return
        last = now
        rate = (done - start) / (now - began)
        say(
            f"{title}: {done / scale:,.0f} of {total / scale:,.0f} {unit}, {rate / scale:,.1f} {unit}/s, "
            f"{duration((total - done) / rate)} left"
        )

    return update
