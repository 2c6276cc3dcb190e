"""Files of the repository whose text may be shown to the model, read in the background.

Nothing is read that lies outside the repository, also not through a link, that git ignores, or that the
rules of model-setup leave out: secret, foreign, generated, binary files; nor what the user excludes.
"""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import TypeVar

from lsp_server.documents import split_lines
from lsp_server.exclusions import NO_MORE, Exclusions
from lsp_server.imports import Import, module_files
from lsp_server.snippets import Block, blocks_of
from model_setup.corpus import decode
from model_setup.secret_lines import drop_secret_lines
from model_setup.unwanted_files import is_product_folder, unwanted_by_name, unwanted_by_text

MAX_BYTES = 200_000
_MOST_IMPORTED = 12
_MOST_KEPT = 64  # files
_MOST_ANSWERS = 1000
_MOST_ASKED = 100  # at once: a command line is short on Windows
_GIT_SECONDS = 5.0

T = TypeVar("T")

logger = logging.getLogger(__name__)


def in_background(work: Callable[[], None]) -> None:
    # A daemon, so that a file system that hangs does not keep the server from leaving.
    threading.Thread(target=work, name="repository files", daemon=True).start()


@dataclass(frozen=True)
class _File:
    """stamp: modification time in ns and size when it was read."""

    stamp: tuple[int, int]
    blocks: list[tuple[int, Block]]


class RepositoryFiles:
    """What is known of a repository's files so far. Its methods are for one thread; none of them waits."""

    def __init__(
        self,
        root: Path | None,
        background: Callable[[Callable[[], None]], None] = in_background,
        exclusions: Exclusions = NO_MORE,
    ) -> None:
        """root: an absolute path, None for no repository: then no file may be used.

        background: runs a function, on another thread or at once.
        """
        self.name = root.name if root else ""
        self.generation = 0  # grows when more is known than before
        self._given = root
        self._root = root.resolve() if root else None
        self._background = background
        self._exclusions = exclusions
        self._may_be_used: dict[Path, bool] = {}
        self._files: dict[Path, _File] = {}
        self._imported: dict[Path, list[Path]] = {}
        self._lock = threading.Lock()  # for what follows, which both threads change
        self._wanted: set[Path] = set()
        self._to_read: set[Path] = set()
        self._importers: dict[Path, tuple[Import, ...]] = {}
        self._working = False

    def relative(self, path: Path) -> str | None:
        """``path`` as seen from the repository, with "/"; None for one outside. Looks at no file."""
        for root in (self._given, self._root):
            if root and path.is_relative_to(root):
                return path.relative_to(root).as_posix()
        return None

    def may_be_used(self, path: Path) -> bool:
        """Whether the file's text may be shown to the model. No as long as that is not known."""
        return self._may_be_used.get(path, False)

    def imported(self, importer: Path) -> list[Path]:
        """The files that ``importer`` imports, so far as known."""
        return self._imported.get(importer, [])

    def blocks(self, path: Path) -> list[tuple[int, Block]]:
        """The file's blocks; none if it may not be used or has changed since it was read, nor until then."""
        file = self._files.get(path)
        if file is None:
            return []
        if _stamp(path) != file.stamp:
            self._files.pop(path, None)
            self.read([path])
            return []
        return file.blocks

    def is_as_read(self, path: Path) -> bool:
        file = self._files.get(path)
        return file is not None and _stamp(path) == file.stamp

    def ask(self, path: Path) -> None:
        """Find out whether the file may be used."""
        self._start(wanted=[path])

    def read(self, paths: Iterable[Path]) -> None:
        """Read the files, as far as they may be used."""
        self._start(to_read=paths)

    def look_at_imports(self, importer: Path, imports: tuple[Import, ...]) -> None:
        """Find the files that are imported, and read them."""
        self._start(importers={importer: imports})

    def forget(self, path: Path) -> None:
        """Keep nothing that is known of a closed document but its text, if that was read."""
        self._may_be_used.pop(path, None)
        self._imported.pop(path, None)

    def _start(
        self,
        wanted: Iterable[Path] = (),
        to_read: Iterable[Path] = (),
        importers: dict[Path, tuple[Import, ...]] | None = None,
    ) -> None:
        if self._root is None:
            return
        with self._lock:
            self._wanted.update(wanted)
            self._to_read.update(to_read)
            self._importers.update(importers or {})
            if self._working:
                return
            self._working = True
        self._background(partial(self._work, self._root))

    def _work(self, root: Path) -> None:
        while True:
            with self._lock:
                wanted, to_read, importers = self._wanted, self._to_read, self._importers
                if not (wanted or to_read or importers):
                    self._working = False
                    return
                self._wanted, self._to_read, self._importers = set(), set(), {}
            try:
                self._learn(root, wanted, to_read, importers)
            except Exception as error:
                logger.error("files of the repository could not be read: %s", type(error).__name__)

    def _learn(
        self, root: Path, wanted: set[Path], to_read: set[Path], importers: dict[Path, tuple[Import, ...]]
    ) -> None:
        for importer, imports in importers.items():
            found = module_files(imports, importer, self._given or root)[:_MOST_IMPORTED]
            to_read.update(path for path in found if path not in self._files)
            self._imported[importer] = found
        usable = _usable(wanted | to_read, root, self._exclusions)
        for path in wanted:
            self._may_be_used[path] = path in usable
        for path in to_read:
            file = _read(path) if path in usable else None
            self._files.pop(path, None)
            if file is not None:
                self._files[path] = file
        _forget_the_oldest(self._files, _MOST_KEPT)
        _forget_the_oldest(self._may_be_used, _MOST_ANSWERS)
        _forget_the_oldest(self._imported, _MOST_ANSWERS)
        self.generation += 1


def _forget_the_oldest(known: dict[Path, T], most: int) -> None:
    for path in list(known)[:-most]:
        known.pop(path, None)


def _usable(paths: Iterable[Path], root: Path, exclusions: Exclusions) -> set[Path]:
    """Which of ``paths`` may be shown to the model."""
    inside: dict[Path, Path] = {}
    for path in paths:
        try:
            real = path.resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, before Python 3.13; a null character
            continue
        if real.is_relative_to(root) and not unwanted_by_name(PurePath(path.name)):
            relative = real.relative_to(root)
            excluded = exclusions.cover_path(path) or exclusions.cover_path(relative)
            if not (excluded or unwanted_by_name(relative)):
                inside[path] = relative
    kept = _not_ignored(sorted(set(inside.values())), root)
    return {path for path, relative in inside.items() if relative in kept}


def _not_ignored(paths: Sequence[Path], root: Path) -> set[Path]:
    """Those of ``paths``, relative to ``root``, that git tracks or would track.

    Without git, those in no hidden folder and no folder of products. Where git keeps the folder but
    cannot be asked, none.
    """
    if not paths:
        return set()
    if not any((folder / ".git").exists() for folder in (root, *root.parents)):
        return {path for path in paths if not any(map(is_product_folder, path.parts[:-1]))}
    asked, later = paths[:_MOST_ASKED], paths[_MOST_ASKED:]
    # core.fsmonitor may be a program of the repository's choice, which git would run
    command = ["git", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-C", str(root), "ls-files", "-z"]
    command += ["--cached", "--others", "--exclude-standard", "--", *(path.as_posix() for path in asked)]
    try:
        listing = subprocess.run(
            command, capture_output=True, check=True, stdin=subprocess.DEVNULL, timeout=_GIT_SECONDS
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return set()
    return {Path(os.fsdecode(name)) for name in listing.split(b"\0") if name} | _not_ignored(later, root)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def _read(path: Path) -> _File | None:
    stamp = _stamp(path)
    if stamp is None or stamp[1] > MAX_BYTES:
        return None
    try:
        text = decode(path.read_bytes())
    except OSError:
        return None
    if text is None or unwanted_by_text(text):
        return None
    text, _ = drop_secret_lines(text)
    return _File(stamp, blocks_of(split_lines(text)))
