"""Where clients come in: the host's socket, and whether it is still the one that they find."""

from __future__ import annotations

import sys
from multiprocessing.connection import Listener
from pathlib import Path

from engine.host.line import Pipe
from engine.host.place import Place


class Door:
    """For the host that holds the place's lock."""

    def __init__(self, place: Place, waiting: int) -> None:
        """waiting: how many clients may wait to be let in."""
        self._place = place
        self.key = place.key()
        if sys.platform == "win32":
            self._listener = Listener(place.address, "AF_PIPE")
        else:
            socket = Path(place.address)
            socket.unlink(missing_ok=True)  # of a host that has died: while we hold the lock, it is nobody's
            self._listener = Listener(str(socket), "AF_UNIX", backlog=waiting)
            socket.chmod(0o600)
        self._made = self._found()

    def wait(self) -> Pipe:
        """The next who comes in, not greeted yet. Raises OSError."""
        return self._listener.accept()

    @property
    def is_ours(self) -> bool:
        """Whether clients find this host: not, once somebody has deleted its folder, its key or its socket.

        Another may have its place then.
        """
        try:
            return self._found() == self._made
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # as far as can be told now, when too many files are open perhaps

    def take_away(self) -> None:
        """Let nobody find it any more. The process's end closes it: the listener's own ``close`` would also
        delete another host's socket, if that is at the address by now."""
        if sys.platform != "win32" and self.is_ours:
            Path(self._place.address).unlink(missing_ok=True)

    def _found(self) -> tuple[bytes, int, int]:
        key = (self._place.folder / "key").read_bytes()
        socket = None if sys.platform == "win32" else Path(self._place.address).stat()
        return (key, socket.st_dev, socket.st_ino) if socket else (key, 0, 0)
