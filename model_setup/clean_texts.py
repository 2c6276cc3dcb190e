"""Which texts were looked through and hold no secrets, so that only changed files are looked through again.

    bytes 0-31   SHA-256 of the rules and what follows: with other rules nothing here holds
    then         the SHA-256 of each such text in UTF-8

Looking for secrets takes most of the time of reading a repository. This file is a help and no more: where it
is missing, damaged or cannot be written, all is looked through.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import tempfile
from pathlib import Path

from model_setup import secret_lines

_SIZE = 32


class CleanTexts:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = frozenset(_read(path))
        self._met: set[bytes] = set()

    def drop_secrets(self, text: str) -> tuple[str, int]:
        """What `drop_secret_lines` gives."""
        digest = hashlib.sha256(text.encode()).digest()
        kept, dropped = (text, 0) if digest in self._known else secret_lines.drop_secret_lines(text)
        if not dropped:
            self._met.add(digest)
        return kept, dropped

    def save(self) -> None:
        """Write down which of the texts asked about are clean, in place of those of the last time."""
        if self._met == self._known:
            return
        body = b"".join(sorted(self._met))
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_checksum(body) + body)
                Path(name).replace(self._path)
            finally:
                Path(name).unlink(missing_ok=True)


def _read(path: Path) -> list[bytes]:
    try:
        data = path.read_bytes()
    except OSError:
        return []
    checksum, body = data[:_SIZE], data[_SIZE:]
    if checksum != _checksum(body):
        return []
    return [body[at : at + _SIZE] for at in range(0, len(body), _SIZE)]


def _checksum(body: bytes) -> bytes:
    rules = inspect.getsource(secret_lines).encode()
    return hashlib.sha256(rules + b"\0" + body).digest()
