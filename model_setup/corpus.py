"""Which files of a repository are learned from, and what was left out and why."""

from __future__ import annotations

import codecs
import hashlib
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from engine.errors import DraftlineError
from model_setup import store
from model_setup.clean_texts import CleanTexts
from model_setup.languages import language
from model_setup.listing import files_in_tree, tracked_files
from model_setup.unwanted_files import unwanted_by_name, unwanted_by_text
from model_setup.user_excludes import user_excludes

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
    """What ``read_sources`` took and what it left out.

    languages: how many files of each. secrets: how many lines were dropped, by path. left_out: reason ->
    paths. Paths are relative to the repository, with "/".
    """

    files: int = 0
    characters: int = 0
    languages: Counter[str] = field(default_factory=Counter)
    secrets: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)

    def take(self, path: Path, text: str, secret_lines: int) -> None:
        self.files += 1
        self.characters += len(text)
        self.languages[language(path) or "other"] += 1
        if secret_lines:
            self.secrets[path.as_posix()] = secret_lines

    def leave_out(self, path: Path, reason: str) -> None:
        self.left_out.setdefault(reason, []).append(path.as_posix())

    def __str__(self) -> str:
        """One line: ``12 files (10 Python, 2 SQL), 34,567 characters; left out: 3 binary, 1 duplicate``."""
        named = ", ".join(f"{count} {name}" for name, count in self.languages.most_common())
        parts = [f"{self.files} files{f' ({named})' if named else ''}, {self.characters:,} characters"]
        if self.left_out:
            counts = (f"{len(paths)} {reason}" for reason, paths in sorted(self.left_out.items()))
            parts.append("left out: " + ", ".join(counts))
        if self.secrets:
            parts.append(f"{sum(self.secrets.values())} lines that look like secrets dropped")
        return "; ".join(parts)


def held_out(path: Path) -> bool:
    """Whether the file at ``path``, relative to its repository, is of the tenth that is never learned from.

    By a hash of the path, so that a file stays on its side when it is edited.
    """
    return hashlib.sha256(path.as_posix().encode("utf-8", "surrogateescape")).digest()[0] % 10 == 0


def read_sources(repository: Path, report: CorpusReport) -> Iterator[SourceText]:
    """Read the source files of ``repository`` one by one, in the order of their paths; fills ``report``.

    Files that git tracks, or where git tracks none all that no .gitignore names, without those that the
    rules or the user's settings leave out. A file that cannot be read is counted and passed over.
    Which texts hold no secrets is remembered, for most of the time is spent on looking for them.

    Raises:
        DraftlineError: there is no such folder, it may not be looked into, the user's patterns cannot be
            read, or (at the end) there is nothing to learn from.
    """
    if not repository.is_dir():
        raise DraftlineError(f"There is no folder {repository}; name the repository to learn from.")
    root = repository.resolve()
    excluded = _patterns(user_excludes(root))
    known: set[bytes] = set()
    inside: dict[Path, bool] = {}
    clean = CleanTexts(store.clean_texts_path(root))

    def unreadable(folder: Path) -> None:
        if folder == Path():
            raise DraftlineError(
                f"The folder {repository} may not be looked into; give yourself the permission to read it."
            )
        report.leave_out(folder, "unreadable")

    for path in sorted(tracked_files(root) or files_in_tree(root, unreadable)):
        reason = unwanted_by_name(path) or ("excluded" if excluded.match_file(path.as_posix()) else None)
        text = "" if reason else _read(root, path, known, inside)
        if reason or isinstance(text, _LeftOut):
            report.leave_out(path, reason or str(text))
            continue
        text, dropped = clean.drop_secrets(text)
        report.take(path, text, dropped)
        yield SourceText(path, text)
    clean.save()
    if report.files == 0:
        raise DraftlineError(
            f"{repository} has no source files to learn from ({report}); name a folder with source code."
        )


def _patterns(globs: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(globs)
    except ValueError as error:
        raise DraftlineError(
            f"One of the patterns of files to exclude, {', '.join(globs)}, is none ({error}); write it in "
            "the settings as in a .gitignore."
        ) from error


class _LeftOut(str):
    """The reason why a file's text is not used."""


def _read(root: Path, path: Path, known: set[bytes], inside: dict[Path, bool]) -> str:
    """The text of a file, or a _LeftOut.

    known: the hashes of the files so far. inside: whether a folder is truly in the repository, as far as that
    was looked up; for each file it would take most of the time.
    """
    file = root / path
    try:
        status = file.lstat()
        if file.parent not in inside:
            inside[file.parent] = file.parent.resolve().is_relative_to(root)
        if stat.S_ISLNK(
            status.st_mode
        ):  # what it leads to is there under its own name, by which it may be secret
            return _LeftOut("link")
        if not inside[file.parent]:
            return _LeftOut("link out of the repository")
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
        text = data.decode(encoding)
        text.encode()  # some encodings can write half of a surrogate pair, which no tokenizer takes
    except (UnicodeError, LookupError):
        return None
    return text
