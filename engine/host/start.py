"""Reaching the host: the one that is there, or one that is started now."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from filelock import Timeout

import engine
from engine.errors import DraftlineError
from engine.host.line import Gone, Line, Silent, dial
from engine.host.place import OCCUPIED, Place

MOST_STARTS = 4  # within a minute: the first, and three after crashes
_MINUTE = 60.0
_PATIENCE = 120.0  # seconds for somebody else who is starting a host
_START_SECONDS, _PAUSE = 60.0, 0.02  # a busy machine takes some seconds to start Python
_NULL = subprocess.DEVNULL


class Unreachable(DraftlineError):
    """There is no host, and none can be had just now."""


def reach(place: Place, command: Sequence[str]) -> Line:
    """A connection to the host. ``command`` starts one: arguments of Python, to which the folder is added.

    Raises:
        Unreachable: the host does not answer, cannot be started, or has died too often.
        DraftlineError: its folder is another user's.
    """
    try:
        place.ready()
        with place.lock("start").acquire(timeout=_PATIENCE):
            key = place.key()
            try:
                return _dial_twice(place.address, key)
            except Silent:
                raise
            except Gone:
                return _start(place, command, key)
    except Timeout as error:
        raise Unreachable("Draftline's engine is being started, but does not come up.") from error
    except Silent as error:
        raise Unreachable(
            "Draftline's engine does not answer: end it with `draftline stop`, and it is started again."
        ) from error
    except OSError as error:
        raise Unreachable(
            f"Draftline's engine cannot work in {place.folder} ({error.strerror or error}); mend that, or "
            "set DRAFTLINE_HOME to another folder."
        ) from error


def _dial_twice(address: str, key: bytes) -> Line:
    """A host may be slow to answer once: the machine may have slept between the question and the answer."""
    try:
        return dial(address, key)
    except Silent:
        return dial(address, key)


def find(place: Place) -> Line | None:
    """A connection to the host if there is one.

    Raises:
        Silent: it does not answer.
    """
    try:
        return dial(place.address, (place.folder / "key").read_bytes())
    except Silent:
        raise
    except (Gone, OSError):
        return None


def _start(place: Place, command: Sequence[str], key: bytes) -> Line:
    _count(place)
    process = _launch(place, command)
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        try:
            return dial(place.address, key)
        except Gone:
            # Another host may be there after all, and just be coming up or leaving.
            if process.poll() not in (None, OCCUPIED):
                raise Unreachable(
                    f"Draftline's engine could not be started; what it said is in {_errors(place)}."
                ) from None
            if process.poll() == OCCUPIED:
                process = _launch(place, command)
        time.sleep(_PAUSE)
    raise Unreachable("Draftline's engine was started, but does not answer; try again in a minute.")


def _count(place: Place) -> None:
    """Note that a host is started. One that leaves of its own accord takes the note away."""
    times = place.read("starts").get("times")
    known = times if isinstance(times, list) else []
    recent = [then for then in known if isinstance(then, float) and 0 <= time.time() - then < _MINUTE]
    if len(recent) >= MOST_STARTS:
        raise Unreachable(
            f"Draftline's engine has ended {len(recent)} times within a minute; it is tried again in a "
            f"minute, and its log file and {_errors(place)} tell more."
        )
    place.write("starts", {"times": [*recent, time.time()]})


def _errors(place: Place) -> Path:
    return place.folder / "errors.txt"


def _launch(place: Place, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process that closing the editor, or its terminal, does not end."""
    # Python looks there first: for this very package, and no module of the user's that is named like one.
    folder = Path(engine.__file__).parents[1]
    arguments = [sys.executable, *command, str(place.folder.absolute())]
    with _errors(place).open("wb") as errors:
        try:
            process = _apart(arguments, folder, errors)
        except OSError as error:
            raise Unreachable(f"Draftline's engine could not be started ({error}); try again.") from error
    # Somebody has to take note of its end, or what is left of it stays in the system's table.
    threading.Thread(target=process.wait, name="host's end", daemon=True).start()
    return process


def _apart(arguments: Sequence[str], folder: Path, errors: BinaryIO) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    if home := environment.get("DRAFTLINE_HOME"):
        environment["DRAFTLINE_HOME"] = str(Path(home).absolute())  # the host works in another folder

    def start(session: bool = False, flags: int = 0) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            stdin=_NULL,
            stdout=_NULL,
            stderr=errors,
            start_new_session=session,
            creationflags=flags,
            env=environment,
        )

    if sys.platform != "win32":
        return start(session=True)
    flags = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    try:
        return start(flags=flags | subprocess.CREATE_BREAKAWAY_FROM_JOB)
    except OSError:  # the editor's job lets nobody go, so the host will end with it
        return start(flags=flags)
