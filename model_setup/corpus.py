"""Which files of a repository are learned from, and what was left out and why."""

from __future__ import annotations

import codecs
import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import DraftlineError
from model_setup.secret_lines import drop_secret_lines
from model_setup.unwanted_files import is_product_folder, unwanted_by_name, unwanted_by_text

MAX_BYTES = 1_000_000

_CODING = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.MULTILINE)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class SourceText:
    """path: relative to the repository. text: as in the file, line ends included, without secret lines."""

    path: Path
    text: str


@dataclass
class CorpusReport:
    """What ``read_sources`` took and what it left out: reason -> paths relative to the repository."""

    files: int = 0
    characters: int = 0
    secret_lines: int = 0
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def leave_out(self, path: Path, reason: str) -> None:
        self.left_out.setdefault(reason, []).append(path.as_posix())

    def __str__(self) -> str:
        """One line: ``12 files, 34,567 characters; left out: 3 binary, 1 duplicate``."""
        parts = [f"{self.files} files, {self.characters:,} characters"]
        if self.left_out:
            counts = (f"{len(paths)} {reason}" for reason, paths in sorted(self.left_out.items()))
            parts.append("left out: " + ", ".join(counts))
        if self.secret_lines:
            parts.append(f"{self.secret_lines} lines that look like secrets dropped")
        return "; ".join(parts)


def held_out(path: Path) -> bool:
    """Whether the file at ``path``, relative to its repository, is of the tenth that is never learned from.

    By a hash of the path, so that a file stays on its side when it is edited.
    """
    return hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).digest()[0] % 10 == 0


def read_sources(repository: Path, report: CorpusReport) -> Iterator[SourceText]:
    """Read the source files of ``repository`` one by one, in the order of their paths; fills ``report``.

    Files that git tracks, or all where git tracks none. A file that cannot be read is counted and
    passed over.

    Raises:
        DraftlineError: there is no such folder, or (at the end) nothing in it to learn from.
    """
    if not repository.is_dir():
        raise DraftlineError(f"There is no folder {repository}; name the repository to learn from.")
    root = repository.resolve()
    known: set[bytes] = set()
    for path in sorted(_tracked(root) or _tree(root, report)):
        reason = unwanted_by_name(path)
        text = "" if reason else _read(root, path, known)
        if reason or isinstance(text, _LeftOut):
            report.leave_out(path, reason or str(text))
            continue
        text, dropped = drop_secret_lines(text)
        report.files += 1
        report.characters += len(text)
        report.secret_lines += dropped
        yield SourceText(path, text)
    if report.files == 0:
        raise DraftlineError(
            f"{repository} has no source files to learn from ({report}); name a folder with source code."
        )


class _LeftOut(str):
    """The reason why a file's text is not used."""


def _tracked(root: Path) -> list[Path]:
    """The files that git tracks below ``root``, relative to it; none outside git or without git."""
    try:
        listing = subprocess.run(
            # core.fsmonitor may be a program of the repository's choice, which git would run
            ["git", "-c", "core.fsmonitor=false", "-C", str(root), "ls-files", "-z"],
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [Path(os.fsdecode(name)) for name in listing.split(b"\0") if name]


def _tree(root: Path, report: CorpusReport) -> Iterator[Path]:
    """All files below ``root``, without hidden folders, virtual environments and build products."""

    def unreadable(error: OSError) -> None:
        report.leave_out(Path(error.filename).relative_to(root), "unreadable")

    for folder, folders, files in os.walk(root, onerror=unreadable):
        here = Path(folder)
        folders[:] = [
            name
            for name in folders
            if not is_product_folder(name) and not os.path.exists(here / name / "pyvenv.cfg")  # noqa: PTH110, Path's raises where we may not look
        ]
        yield from (here.relative_to(root) / name for name in files)


def _read(root: Path, path: Path, known: set[bytes]) -> str:
    """The text of a file, or a _LeftOut; ``known`` holds the hashes of the files so far."""
    file = root / path
    try:
        if not file.resolve().is_relative_to(root):
            return _LeftOut("link out of the repository")
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return _LeftOut("not a file")
        if status.st_size > MAX_BYTES:
            return _LeftOut("over 1 MB")
        data = file.read_bytes()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return _LeftOut("unreadable")
    digest = hashlib.sha256(data).digest()
    if digest in known:
        return _LeftOut("duplicate")
    known.add(digest)
    text = decode(data)
    if text is None:
        return _LeftOut("binary" if b"\0" in data else "unknown encoding")
    reason = unwanted_by_text(text)
    return text if reason is None else _LeftOut(reason)


def decode(data: bytes) -> str | None:
    """The text of a source file: by its byte order mark, as UTF-8, as it declares, or as Windows-1252.

    None for binary data, or if none of these fits. (Windows-1252 takes nearly any bytes, so it is
    believed only where few are not ASCII: an accented name in a comment, not a text in another script.)
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
    if b"\0" in data:
        return None
    text = _decode(data, "utf-8")
    declared = _CODING.search(b"\n".join(data.split(b"\n", 2)[:2]))
    if text is None and declared:
        text = _decode(data, declared[1].decode())
    if text is None and sum(byte >= 0x80 for byte in data) < len(data) / 50:
        text = _decode(data, "cp1252")
    return text


def _decode(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError):
        return None
