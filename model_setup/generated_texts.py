"""A file of texts that a model wrote. It only grows, so a run that is killed loses its last batch at most.

bytes 0-7    magic
bytes 8-39   SHA-256 of the tokenizer's fingerprint
then         batches: CRC-32 of what follows, how many numbers follow, and these: the number of texts, the
             length of each start, the length of each text, all starts, all texts; little-endian u32
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import DraftlineError

MAGIC = b"WRITTEN\n"
_HEAD = len(MAGIC) + 32

Ids = NDArray[np.uint32]


class GeneratedTexts:
    """Iterating yields (start, text) in the order of writing: what the model went on from, and what it wrote.

    A file that is missing, or was written with another tokenizer, has none and is begun anew by ``append``.
    """

    def __init__(self, path: Path, tokenizer_fingerprint: str) -> None:
        self.path = path
        self._head = MAGIC + hashlib.sha256(tokenizer_fingerprint.encode()).digest()
        self._end: int | None = None  # where the last whole batch ends, once that was looked up

    def __iter__(self) -> Iterator[tuple[Ids, Ids]]:
        for _, numbers in self._batches():
            texts = int(numbers[0])
            lengths = numbers[1 : 1 + 2 * texts]
            parts = np.split(numbers[1 + 2 * texts :], np.cumsum(lengths)[:-1])
            yield from zip(parts[:texts], parts[texts:], strict=True)

    def append(self, starts: Sequence[Sequence[int]], texts: Sequence[Sequence[int]]) -> None:
        """Write one batch, so that it is on the disk when this returns.

        Raises:
            DraftlineError: there is no room; what was there before still is.
        """
        lengths = [len(ids) for ids in (*starts, *texts)]
        ids = [token for part in (*starts, *texts) for token in part]
        numbers = np.array([len(texts), *lengths, *ids], dtype="<u4")
        data = np.array([len(numbers)], dtype="<u4").tobytes() + numbers.tobytes()
        end = self._find_end() if self._end is None else self._end
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("r+b" if end else "wb") as file:
                file.truncate(end)  # half a batch of a killed run
                file.seek(end)
                file.write(b"" if end else self._head)
                file.write(zlib.crc32(data).to_bytes(4, "little") + data)
                file.flush()
                os.fsync(file.fileno())
                self._end = file.tell()
        except OSError as error:
            raise DraftlineError(
                f"What the model wrote cannot be kept in {self.path} ({error.strerror or error}); "
                "make room or choose another folder with DRAFTLINE_HOME."
            ) from error

    def _find_end(self) -> int:
        """Where the last whole batch ends; 0 if not even the head is there."""
        return max((end for end, _ in self._batches()), default=0)

    def _batches(self) -> Iterator[tuple[int, Ids]]:
        """The whole batches: where each ends, and its numbers."""
        try:
            file = self.path.open("rb")
        except OSError:
            return
        with file:
            if file.read(_HEAD) != self._head:
                return
            while len(front := file.read(8)) == 8:
                count = int.from_bytes(front[4:], "little")
                data = file.read(4 * count)
                if len(data) != 4 * count or zlib.crc32(front[4:] + data) != int.from_bytes(
                    front[:4], "little"
                ):
                    return
                yield file.tell(), np.frombuffer(data, dtype="<u4")
