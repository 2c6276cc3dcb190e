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
from collections.abc import Callable, Iterator
from pathlib import Path

_MADV_DONTNEED = 4
_MADV_COLLAPSE = 25
_HUGE = 2 << 20
_SMALLEST = 4 * _HUGE  # mappings below this hold no weights


def settle_in_background() -> Callable[[], None]:
    """After loading: `collapse`, then `give_back`. Takes a second or two; decoding may begin meanwhile.

    In this order: pages that have holes already are not moved. Returns a function that waits for the end.
    """

    def settle() -> None:
        collapse()
        give_back()

    thread = threading.Thread(target=settle, name="settling", daemon=True)
    thread.start()
    return thread.join


def collapse() -> int:
    """Ask for huge pages under all large private memory of this process; returns the bytes moved."""
    if sys.platform != "linux":
        return 0
    moved = 0
    for start, end, permissions, name in _mappings():
        first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
        private = permissions == "rw-p" and not name.startswith("/")
        if private and last - first >= _SMALLEST and _advise(first, last - first, _MADV_COLLAPSE):
            moved += last - first
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
