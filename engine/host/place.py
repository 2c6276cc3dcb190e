"""Where a host is: a folder that only its user can open, with the key, the address and the locks.

``key``        what host and clients prove to each other that they hold
``host.lock``  held by the host while it lives; the system lets go of it when the host dies
``start.lock`` held while somebody starts a host
``socket``     where it listens, but for Windows, where that is a named pipe
``host.json``  its process, for ending one that hangs
``errors.txt`` what it said on stderr
``starts.json``, ``loading.json``, ``tokenizer-*.json``: see ``start`` and ``shelf``
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from engine.errors import DraftlineError

OCCUPIED = 3  # the exit code of a host that finds another in its place
_KEY_BYTES = 32
_LONGEST_ADDRESS = 100  # bytes; macOS allows 104, Linux 108


@dataclass(frozen=True)
class Place:
    """folder: of this one host. ``ready`` must be called once before it is used."""

    folder: Path

    @staticmethod
    def of(home: Path, version: str) -> Place:
        """The place of the host of this version on this machine; several machines may share a home."""
        name = re.sub(r"[^\w.+-]", "_", f"{version}-{platform.node()}")
        return Place(home / "host" / name)

    @staticmethod
    def all(home: Path) -> list[Place]:
        """Those of all versions and machines that have ever been there."""
        folders = (home / "host").glob("*/")
        return [Place(folder) for folder in sorted(folders) if folder.is_dir()]

    @property
    def address(self) -> str:
        """What `multiprocessing.connection` connects to."""
        name = f"draftline-{hashlib.sha256(os.fsencode(self.folder.absolute())).hexdigest()[:24]}"
        if sys.platform == "win32":
            return rf"\\.\pipe\{name}"
        socket = self.folder.absolute() / "socket"
        if len(os.fsencode(socket)) > _LONGEST_ADDRESS:
            # Not where TMPDIR says: that is not the same for all windows.
            socket = Path("/tmp") / f"{name}-{os.getuid()}" / "socket"
        return str(socket)

    def ready(self) -> None:
        """Make the folders, or make sure that nobody else can open them.

        Raises:
            DraftlineError: a folder is another user's.
            OSError: it cannot be made.
        """
        _own(self.folder)
        if sys.platform != "win32":
            _own(Path(self.address).parent)

    def key(self) -> bytes:
        """The key, made where there is none, or one that others may know or have put there.

        Hold the start lock, so that two do not make one each.
        """
        path = self.folder / "key"
        try:
            with path.open("rb") as file:
                key = file.read() if _is_private(os.fstat(file.fileno())) else b""
        except FileNotFoundError:
            key = b""
        if len(key) != _KEY_BYTES:
            key = secrets.token_bytes(_KEY_BYTES)
            write_beside(path, key)
        return key

    def lock(self, name: str) -> FileLock:
        return FileLock(self.folder / f"{name}.lock")

    def read(self, name: str) -> dict[str, Any]:
        """The object in ``name``.json, empty where there is none or it is garbled."""
        try:
            found = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, name: str, content: dict[str, Any]) -> None:
        write_beside(self.folder / f"{name}.json", json.dumps(content).encode())

    def forget(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink(missing_ok=True)


def write_beside(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, as a whole or not at all."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def _is_private(status: os.stat_result) -> bool:
    """Whether a file is ours, and no other user can open it."""
    if sys.platform == "win32":
        return True  # as its folder is
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def _own(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform == "win32":
        return  # a user's folders are closed to others there
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise DraftlineError(
            f"{folder} is not a folder of your own; remove it, or set DRAFTLINE_HOME to another folder."
        )
    if stat.S_IMODE(found.st_mode) != 0o700:
        folder.chmod(0o700)
