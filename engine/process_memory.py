"""What this process asks of the system for its memory, where the system is Linux; elsewhere nothing is done.

Huge pages: decoding a token reads all weights once, and on pages of 4 kB the processor spends a good part of
that time looking addresses up. On huge pages an int8 step of the 0.5B took 34 to 36 ms instead of 34 to 47.
Linux moves memory that is already filled when it is asked to (MADV_COLLAPSE, kernel 6.1).

Giving back: the model's file is mapped and read once, and packing its matrices leaves holes in the heap. Both
count as this process's memory until it says that it is done with them: 1.3 GB of 2.2 for the 0.5B in int8.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_MADV_COLLAPSE = 25
_HUGE = 2 << 20
_SMALLEST = 4 * _HUGE  # mappings below this hold no weights
_AT_ONCE = 16 * _HUGE  # some 0.1 s, for which whoever decodes may have to wait
_QUIET = 1.0  # seconds without decoding, after which it may take that long


class Settling:
    """After loading, `collapse` and then `give_back`: pages that have holes already are not moved.

    Moving the weights of a 0.5B takes seconds, in which a pass waits for every page: a first suggestion of
    2 s took 6. So it is put off until nobody has decoded for a moment, and stopped when somebody does.
    """

    def __init__(self) -> None:
        self._decoding = 0
        self._quiet_since = time.monotonic()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._settle, name="settling", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """Meanwhile somebody decodes."""
        self._decoding += 1
        try:
            yield
        finally:
            self._decoding -= 1
            self._quiet_since = time.monotonic()

    def finish(self) -> None:
        """Do at once what is left of it, and wait for the end."""
        self._hurry.set()
        self._thread.join()

    def _settle(self) -> None:
        collapse(self._wait_until_quiet)
        self._wait_until_quiet()
        give_back()

    def _wait_until_quiet(self) -> None:
        while self._decoding or time.monotonic() < self._quiet_since + _QUIET:
            if self._hurry.wait(_QUIET / 4):
                return


def collapse(before_each: Callable[[], None] = lambda: None) -> int:
    """Ask for huge pages under all large private memory of this process, piece by piece; returns the bytes
    moved. before_each: called before each piece."""
    if sys.platform != "linux":
        return 0
    moved = 0
    for start, end, permissions, name in _mappings():
        first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
        private = permissions == "rw-p" and not name.startswith("/")
        if not private or last - first < _SMALLEST:
            continue
        for piece in range(first, last, _AT_ONCE):
            before_each()
            size = min(_AT_ONCE, last - piece)
            moved += size * _advise(piece, size, _MADV_COLLAPSE)
    return moved


def forget_file(path: Path) -> None:
    """Let go of the memory that mappings of ``path`` take; it must only have been read.

    What is used again is read from the file again.
    """
    if sys.platform != "linux":
        return
    mapped = str(path.resolve())
    for start, end, _, name in _mappings():
        if name == mapped:
            _advise(start, end - start, _MADV_DONTNEED)


def give_back() -> None:
    """Return what the heap holds but does not use."""
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # a C library other than GNU's
            ctypes.CDLL(None).malloc_trim(0)


def _mappings() -> Iterator[tuple[int, int, str, str]]:
    """(start, end, permissions, file or "") of all of this process's memory."""
    for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines():
        addresses, permissions, _, _, _, *name = line.split(maxsplit=5)
        start, end = (int(address, 16) for address in addresses.split("-"))
        yield start, end, permissions, name[0] if name else ""


def _advise(start: int, length: int, advice: int) -> bool:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return bool(madvise(start, length, advice) == 0)
