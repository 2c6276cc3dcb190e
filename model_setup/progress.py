"""Progress of a long transfer: a bar on a terminal, a line now and then elsewhere. All on stderr."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

_SECONDS_BETWEEN_LINES = 5.0

console = Console(stderr=True, highlight=False, soft_wrap=True)


def say(message: str) -> None:
    console.print(message, markup=False)


Update = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@contextmanager
def bytes_progress(title: str, done: int = 0) -> Iterator[Update]:
    """Yields an Update that shows bytes, rate and time left; ``done`` bytes were there before."""
    if not console.is_terminal:
        yield _lines(title, done)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=None, completed=done)
        yield lambda now_done, total: bar.update(task, completed=now_done, total=total)


def _lines(title: str, start: int) -> Update:
    began = last = time.monotonic()

    def update(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _SECONDS_BETWEEN_LINES or done >= total:
            return
        last = now
        rate = max(done - start, 1) / (now - began)
        say(
            f"{title}: {done / 1e6:.0f} of {total / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s, "
            f"{(total - done) / rate:.0f} s left"
        )

    return update
