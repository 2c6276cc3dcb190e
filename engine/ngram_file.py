"""The file of a trigram table: one header page, then arrays to be mapped into memory.

    bytes 0-7     magic
    bytes 8-11    format version, u32
    bytes 12-15   length of the description, u32
    bytes 16-47   SHA-256 of the description
    from 48       the description, JSON: what table this is and where each array lies
    from 4096     the arrays, each at a multiple of 64 bytes, little-endian

The layout is kenlm's trie: a token points to its bigrams, a bigram to its trigrams.

    token_*    [vocab]      count, total, alpha, start (one more: its bigrams are start[v]:start[v + 1]),
                            order (token ids by falling probability)
    bigram_*   [bigrams]    sorted by id within a first token: id of the second token, count, total, alpha,
                            start (one more: its trigrams), order (a first token's bigrams by falling count)
    trigram_*  [trigrams]   id of the third token, count: within a context the HEAD most frequent come
                            first, by falling count, and the rest follow by id, so that the best successors
                            are read off and any other is found by bisection, without a second index

Counts are kept, not probabilities, so that tables can be added up exactly.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import struct
import tempfile
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import DraftlineError

MAGIC = b"DRAFT2\r\n"  # the line end shows a transfer that took the file for text
VERSION = 1
BODY = 4096
HEAD = 16

FORMATS = {
    "token_count": "I",
    "token_total": "f",
    "token_alpha": "f",
    "token_start": "I",
    "token_order": "I",
    "bigram_id": "I",
    "bigram_count": "I",
    "bigram_total": "f",
    "bigram_alpha": "f",
    "bigram_start": "I",
    "bigram_order": "I",
    "trigram_id": "I",
    "trigram_count": "I",
}
_PREAMBLE = struct.Struct("<8sII32s")
_AGAIN = "build it again with `model-setup trigram`"


@dataclass(frozen=True)
class Description:
    """What a table is.

    discounts: for unigrams, bigrams and trigrams, the factors of counts 1 to k. total, alpha: those of
    the empty context. sections: name -> (first byte, number of elements). size: of the file, in bytes.
    """

    tokenizer_fingerprint: str
    vocab_size: int
    discounts: list[list[float]]
    total: float
    alpha: float
    sections: dict[str, tuple[int, int]]
    size: int
    body_sha256: str


def write_file(
    path: Path,
    arrays: Mapping[str, NDArray[Any]],
    tokenizer_fingerprint: str,
    vocab_size: int,
    discounts: list[list[float]],
    total: float,
    alpha: float,
) -> None:
    """Write ``arrays`` (named as in FORMATS) to a temporary file beside ``path``, then rename it.

    Raises:
        DraftlineError: the file cannot be written; what was at ``path`` is untouched.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            temporary = Path(file.name)
            digest = hashlib.sha256()
            sections: dict[str, tuple[int, int]] = {}
            position = BODY
            file.seek(BODY)
            for name, code in FORMATS.items():
                data = np.ascontiguousarray(arrays[name], dtype="<u4" if code == "I" else "<f4")
                sections[name] = (position, len(data))
                padding = bytes(-data.nbytes % 64)
                for part in (data.data.cast("B") if len(data) else b"", padding):
                    file.write(part)
                    digest.update(part)
                position += data.nbytes + len(padding)
            description = Description(
                tokenizer_fingerprint,
                vocab_size,
                discounts,
                total,
                alpha,
                sections,
                position,
                digest.hexdigest(),
            )
            text = json.dumps(asdict(description)).encode()
            file.seek(0)
            file.write(_PREAMBLE.pack(MAGIC, VERSION, len(text), hashlib.sha256(text).digest()))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise DraftlineError(
            f"The trigram table {path} cannot be written ({error.strerror or error}); "
            "make room or choose another folder with DRAFTLINE_HOME."
        ) from error


def open_file(path: Path) -> tuple[Description, mmap.mmap]:
    """Map ``path`` and check its header and its size; the arrays are left to ``verify``.

    Raises:
        DraftlineError: the file is missing, cut short, damaged, or of another format version.
    """
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if hasattr(mmap, "MADV_RANDOM"):
                # Lookups jump about. Reading ahead would bring most of a large table in after a thousand of
                # them (218 of 360 MB instead of 27); it would spare the first ones half a millisecond each.
                data.madvise(mmap.MADV_RANDOM)
    except FileNotFoundError as error:
        raise DraftlineError(f"There is no trigram table at {path}; {_AGAIN}.") from error
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise DraftlineError(f"The trigram table {path} cannot be read ({error}); {_AGAIN}.") from error
    try:
        return _describe(path, data), data
    except DraftlineError:
        data.close()
        raise


def _describe(path: Path, data: mmap.mmap) -> Description:
    if data[: len(MAGIC)] != MAGIC:
        raise DraftlineError(f"{path} is not a trigram table; {_AGAIN}.")
    if len(data) < BODY:
        raise DraftlineError(f"The trigram table {path} is cut short; {_AGAIN}.")
    _, version, length, digest = _PREAMBLE.unpack(data[: _PREAMBLE.size])
    if version != VERSION:
        raise DraftlineError(
            f"The trigram table {path} has format version {version} instead of {VERSION}; {_AGAIN}."
        )
    text = data[_PREAMBLE.size : _PREAMBLE.size + length]
    if hashlib.sha256(text).digest() != digest:
        raise DraftlineError(f"The header of the trigram table {path} is damaged; {_AGAIN}.")
    description = Description(**json.loads(text))
    if len(data) != description.size:
        raise DraftlineError(
            f"The trigram table {path} has {len(data)} bytes instead of {description.size}; {_AGAIN}."
        )
    return description


def check_tokenizer(path: Path, description: Description, tokenizer_fingerprint: str) -> None:
    """Refuse a table of another tokenizer: its ids would mean other tokens."""
    if description.tokenizer_fingerprint != tokenizer_fingerprint:
        raise DraftlineError(
            f"The trigram table {path} belongs to another tokenizer than the model's; {_AGAIN}."
        )


def verify_body(path: Path, description: Description, data: mmap.mmap) -> None:
    """Read the whole file and compare its checksum.

    Raises:
        DraftlineError: the arrays are damaged.
    """
    with memoryview(data) as view:
        digest = hashlib.sha256(view[BODY:]).hexdigest()
    if digest != description.body_sha256:
        raise DraftlineError(f"The trigram table {path} is damaged; {_AGAIN}.")


def integers(description: Description, data: mmap.mmap, name: str) -> memoryview[int]:
    """One array of counts, ids or starts as a view on the mapped file; indexing it yields a plain int."""
    first, count = description.sections[name]
    if not count:  # an empty view cannot be cast
        return memoryview(array("I"))
    return memoryview(data)[first : first + 4 * count].cast("I")


def floats(description: Description, data: mmap.mmap, name: str) -> memoryview[float]:
    """One array of totals or back-off weights, likewise."""
    first, count = description.sections[name]
    if not count:
        return memoryview(array("f"))
    return memoryview(data)[first : first + 4 * count].cast("f")
