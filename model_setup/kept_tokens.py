"""The token ids of a repository's texts, kept by what is in them: only changed files are tokenised again.

    bytes 0-7   magic
    then        the ids of each text, little-endian u32
    then        the index: one ENTRY for each text
    last 44     where the index begins u64, its number of entries u32, SHA-256 over the tokenizer's
                fingerprint and the index

It is a help and no more: what is missing, damaged, or was made by another tokenizer is made again without a
word.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from engine.errors import DraftlineError

MAGIC = b"TOKENS1\n"
# text: SHA-256 of its UTF-8. first: byte of its ids. crc: CRC-32 of them.
ENTRY = np.dtype([("text", "V32"), ("first", "<u8"), ("tokens", "<u4"), ("crc", "<u4")])
_FOOTER = struct.Struct("<QI32s")

Ids = NDArray[np.uint32]


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class KeptTokens:
    """Reads the file at ``path``; there may be none. Close it before it is replaced."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._file = None
        self._entries: dict[bytes, tuple[int, int, int]] = {}
        with contextlib.suppress(OSError):
            self._file = path.open("rb")
            self._entries = self._read_index(path.stat().st_size, fingerprint)

    def _read_index(self, size: int, fingerprint: str) -> dict[bytes, tuple[int, int, int]]:
        assert self._file is not None
        if size < len(MAGIC) + _FOOTER.size or self._file.read(len(MAGIC)) != MAGIC:
            return {}
        self._file.seek(size - _FOOTER.size)
        first, entries, digest = _FOOTER.unpack(self._file.read(_FOOTER.size))
        if first + entries * ENTRY.itemsize + _FOOTER.size != size:
            return {}
        self._file.seek(first)
        index = self._file.read(entries * ENTRY.itemsize)
        if _index_digest(fingerprint, index) != digest:
            return {}
        return {
            text: (at, tokens, crc) for text, at, tokens, crc in np.frombuffer(index, dtype=ENTRY).tolist()
        }

    def ids(self, text: bytes) -> Ids | None:
        """The ids of the text of this digest, if they are there."""
        at, tokens, crc = self._entries.get(text, (0, 0, 0))
        if not tokens or self._file is None:
            return None
        try:
            self._file.seek(at)
            data = self._file.read(4 * tokens)
        except OSError:
            return None
        if len(data) != 4 * tokens or zlib.crc32(data) != crc:
            return None
        return np.frombuffer(data, dtype="<u4")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> KeptTokens:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TokenKeeper:
    """Writes such a file beside ``path``, which it replaces when the block ends without an error.

    Raises:
        DraftlineError: it cannot be written; what was at ``path`` is untouched.
    """

    def __init__(self, path: Path, fingerprint: str) -> None:
        self._path = path
        self._fingerprint = fingerprint
        self._entries: list[tuple[bytes, int, int, int]] = []
        self._position = len(MAGIC)

    def __enter__(self) -> TokenKeeper:
        with self._told():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = tempfile.NamedTemporaryFile(
                dir=self._path.parent, prefix=f".{self._path.name}.", delete=False
            )
            self._file.write(MAGIC)
        return self

    def keep(self, text: bytes, ids: Ids) -> None:
        """text: its digest."""
        data = ids.astype("<u4").tobytes()
        with self._told():
            self._file.write(data)
        self._entries.append((text, self._position, len(data) // 4, zlib.crc32(data)))
        self._position += len(data)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        temporary = Path(self._file.name)
        try:
            if error is None:
                with self._told():
                    self._finish()
                    temporary.replace(self._path)
        finally:
            with contextlib.suppress(OSError):
                self._file.close()
            temporary.unlink(missing_ok=True)

    def _finish(self) -> None:
        index = np.array(self._entries, dtype=ENTRY).tobytes()
        self._file.write(index)
        self._file.write(
            _FOOTER.pack(self._position, len(self._entries), _index_digest(self._fingerprint, index))
        )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise DraftlineError(
                f"The tokens of the repository cannot be kept in {self._path} ({error.strerror or error}); "
                "make room or choose another folder with DRAFTLINE_HOME."
            ) from error


def _index_digest(fingerprint: str, index: bytes) -> bytes:
    return hashlib.sha256(fingerprint.encode() + b"\0" + index).digest()
