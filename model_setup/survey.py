"""What there is to learn from in a repository, and whether it has changed: every file read once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from model_setup import store
from model_setup.corpus import CorpusReport, held_out, read_sources

_FILES_BETWEEN_REPORTS = 100


@dataclass(frozen=True)
class Survey:
    """root: the repository. report: what was taken and left out. paths: of the files taken, with their
    characters. learned, held_out: hashes of the texts on either side, secrets dropped."""

    root: Path
    report: CorpusReport
    paths: dict[Path, int]
    learned: str
    held_out: str

    @property
    def held_out_files(self) -> int:
        return sum(map(held_out, self.paths))

    @property
    def learned_characters(self) -> int:
        return sum(size for path, size in self.paths.items() if not held_out(path))


def survey(folder: Path, on_files: Callable[[int], None] | None = None) -> Survey:
    """Read the repository that ``folder`` is in. on_files: told now and then how many files were taken.

    Raises:
        DraftlineError: as ``read_sources``.
    """
    root = store.repository_root(folder) if folder.is_dir() else folder
    report = CorpusReport()
    paths: dict[Path, int] = {}
    digests = {True: hashlib.sha256(), False: hashlib.sha256()}
    for source in read_sources(root, report):
        paths[source.path] = len(source.text)
        text = hashlib.sha256(source.text.encode("utf-8", "surrogatepass")).digest()
        name = source.path.as_posix().encode("utf-8", "surrogateescape")
        digests[held_out(source.path)].update(name + b"\0" + text)
        if on_files is not None and report.files % _FILES_BETWEEN_REPORTS == 0:
            on_files(report.files)
    return Survey(root, report, paths, digests[False].hexdigest(), digests[True].hexdigest())
