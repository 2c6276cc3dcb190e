"""Code in general, for the table under every repository's own: the library and packages of this Python."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from model_setup.corpus import decode
from model_setup.secret_lines import drop_secret_lines
from model_setup.unwanted_files import unwanted_by_name

CHARACTERS = 22_000_000  # between 5M and 6M tokens
FILE_BYTES = 250_000  # longer files are tables and generated code


def general_texts() -> Iterator[str]:
    """The standard library, then the packages: from each at most an equal share of what is left."""
    paths = sysconfig.get_paths()
    standard = Path(paths["stdlib"])
    left = CHARACTERS
    for text in bounded(_texts(_source_files(standard)), left):
        left -= len(text)
        yield text
    sites = {Path(paths["purelib"]), Path(paths["platlib"])}
    packages = [
        _source_files(folder)
        for site in sorted(sites)
        if site.is_dir()
        for folder in sorted(site.iterdir())
        if (folder / "__init__.py").is_file()
    ]
    sizes = [sum(size for _, size in files) for files in packages]
    # smallest first, so that what a small package does not use falls to the larger ones
    for rank, index in enumerate(sorted(range(len(packages)), key=sizes.__getitem__)):
        share = left // (len(packages) - rank)
        for text in bounded(_texts(packages[index]), share):
            left -= len(text)
            yield text


def bounded(texts: Iterable[str], characters: int) -> Iterator[str]:
    """The first of ``texts``, up to the one with which they have so many characters."""
    for text in texts:
        yield text
        characters -= len(text)
        if characters <= 0:
            return


def _source_files(folder: Path) -> list[tuple[Path, int]]:
    """The source files below ``folder`` and their sizes, without tests and installed packages, shuffled."""
    apart = {"test", "tests", "site-packages", "dist-packages", "idlelib", "lib2to3", "pydoc_data"}
    files: list[tuple[bytes, Path, int]] = []
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if apart.isdisjoint(relative.parts) and unwanted_by_name(relative) is None and path.is_file():
            size = path.stat().st_size
            if size <= FILE_BYTES:
                files.append((hashlib.sha256(relative.as_posix().encode()).digest(), path, size))
    return [(path, size) for _, path, size in sorted(files)]


def _texts(files: list[tuple[Path, int]]) -> Iterator[str]:
    for path, _ in files:
        try:
            text = decode(path.read_bytes())
        except OSError:
            continue
        if text:
            yield drop_secret_lines(text)[0]
