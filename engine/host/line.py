"""A connection between host and client: packets of bounded length, both ends proved to hold the key."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Protocol

from engine.host.wire import LONGEST

_SEND_SECONDS = 2  # for a host to take what it is sent
GREETING_SECONDS = 10.0  # for the other end to prove itself; a machine may be busy


class Gone(Exception):
    """There is nobody at the other end, or not one who may be."""


class Silent(Gone):
    """Somebody is there, but does not answer."""


class Pipe(Protocol):
    """What is used of a `multiprocessing.connection.Connection`: of its objects, only bytes."""

    def send_bytes(self, buf: bytes) -> None: ...
    def recv_bytes(self, maxlength: int | None = None) -> bytes: ...
    def poll(self, timeout: float | None = 0.0) -> bool: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...


class Line:
    """One end. ``send`` and ``hang_up`` may be called from any thread, ``receive`` from one."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self._ending = threading.Lock()
        self._ended = False

    def send(self, packet: bytes) -> None:
        """Raises Gone."""
        with self._sending:
            try:
                self._pipe.send_bytes(packet)
            except (OSError, ValueError) as error:
                raise Gone from error

    def receive(self) -> bytes:
        """The next packet.

        Raises:
            Gone: the other end, or ``hang_up``, has ended the connection, or the packet is too long.
        """
        try:
            # A read of a Windows pipe cannot be interrupted, so it is not begun before there is something.
            while sys.platform == "win32" and not self._pipe.poll(0.1):
                if self._ended:
                    raise Gone
            return self._pipe.recv_bytes(LONGEST)
        except (OSError, EOFError, ValueError) as error:
            raise Gone from error

    def hang_up(self) -> None:
        """End it for both; whoever is in ``receive`` or ``send`` has Gone."""
        with self._ending:
            self._ended = True
            if sys.platform != "win32":
                with contextlib.suppress(OSError):  # it has ended already
                    same = socket.fromfd(self._pipe.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
                    with same:
                        same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """To be called by the thread that receives, when it has Gone."""
        self.hang_up()
        with self._ending, self._sending:
            self._pipe.close()


def greet(pipe: Pipe, key: bytes, first: bool, seconds: float = GREETING_SECONDS) -> Line:
    """Prove to each other, within so many seconds, that both hold ``key``. first: this end asks first.

    Raises:
        Silent: the other end does not answer.
        Gone: it has another key.
    """
    line, end = Line(pipe), time.monotonic() + seconds
    patient = _Patient(pipe, end)
    late = threading.Timer(seconds, line.hang_up)  # ends the wait for the rest of a packet that has begun
    late.daemon = True
    late.start()
    try:
        if first:
            deliver_challenge(patient, key)  # type: ignore[arg-type]
            answer_challenge(patient, key)  # type: ignore[arg-type]
        else:
            answer_challenge(patient, key)  # type: ignore[arg-type]
            deliver_challenge(patient, key)  # type: ignore[arg-type]
    except (OSError, EOFError, ValueError, AssertionError, AuthenticationError) as error:
        line.close()
        raise (Silent if time.monotonic() >= end else Gone) from error
    finally:
        late.cancel()
    return line


def dial(address: str, key: bytes) -> Line:
    """Connect to the host at ``address``.

    Raises:
        Silent: somebody is there, but does not answer.
        Gone: nobody is, or not one with this key.
    """
    try:
        pipe = _connected(address)
    except BlockingIOError as error:
        raise Silent from error
    except (OSError, EOFError) as error:
        raise Gone from error
    return greet(pipe, key, first=False)


def _connected(address: str) -> Pipe:
    """Raises BlockingIOError: so many wait there to be let in that one more would wait for ever."""
    if sys.platform == "win32":
        return Client(address, family="AF_PIPE")
    with socket.socket(socket.AF_UNIX) as end:
        end.setblocking(False)
        end.connect(address)
        end.setblocking(True)
        # as the system's struct timeval: whoever sends to a host that reads nothing has an error then
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _SEND_SECONDS, 0))
        return Connection(end.detach())


class _Patient:
    """A pipe whose reads end at a time of ``time.monotonic``: the library's own greeting waits for ever."""

    def __init__(self, pipe: Pipe, end: float) -> None:
        self._pipe = pipe
        self._end = end

    def send_bytes(self, buf: bytes) -> None:
        self._pipe.send_bytes(buf)

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        if not self._pipe.poll(max(0.0, self._end - time.monotonic())):
            raise TimeoutError
        return self._pipe.recv_bytes(maxlength)
