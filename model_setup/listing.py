"""Which files a repository consists of: those that git tracks, else the tree without what is ignored."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

from model_setup.unwanted_files import is_product_folder

# Set where git itself runs us, from a hook: they would name another repository than the one we ask for
_GITS_OWN = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"}

Rules = tuple[tuple[Path, GitIgnoreSpec], ...]
"""The .gitignore files that hold in a folder, the outermost first, each with the folder it is in."""


def tracked_files(root: Path) -> list[Path]:
    """The files that git tracks below ``root``, relative to it; none outside git or without git."""
    environment = {name: value for name, value in os.environ.items() if name not in _GITS_OWN}
    try:
        listing = subprocess.run(
            # core.fsmonitor may be a program of the repository's choice, which git would run
            ["git", "-c", "core.fsmonitor=false", "-C", str(root), "ls-files", "-z"],
            capture_output=True,
            check=True,
            stdin=subprocess.DEVNULL,
            env=environment,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    # a set, for git names a file in conflict once for each side
    return [Path(os.fsdecode(name)) for name in set(listing.split(b"\0")) if name]


def files_in_tree(root: Path, unreadable: Callable[[Path], None]) -> Iterator[Path]:
    """All files below ``root``, relative to it, that no .gitignore there names, without hidden folders,
    virtual environments and build products. unreadable: told the folders that may not be looked into."""

    def refused(error: OSError) -> None:
        unreadable(Path(error.filename).relative_to(root))

    rules_above: dict[Path, Rules] = {root: ()}
    for folder, folders, files in os.walk(root, onerror=refused):
        here = Path(folder)
        rules = rules_above.pop(here)
        if ".gitignore" in files:
            rules += ((here, _gitignore(here / ".gitignore")),)
        folders[:] = [
            name
            for name in folders
            if not is_product_folder(name)
            and not os.path.exists(here / name / "pyvenv.cfg")  # noqa: PTH110, Path's raises where we may not look
            and not _is_ignored(here / name, rules, "/")
        ]
        rules_above.update((here / name, rules) for name in folders)
        yield from ((here / name).relative_to(root) for name in files if not _is_ignored(here / name, rules))


def _gitignore(path: Path) -> GitIgnoreSpec:
    """The rules in a file, without the lines that are none."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return GitIgnoreSpec.from_lines([])
    return GitIgnoreSpec.from_lines(line for line in lines if _is_rule(line))


def _is_rule(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True


def _is_ignored(path: Path, rules: Rules, end: str = "") -> bool:
    """Whether the innermost .gitignore that says anything of ``path`` excludes it. end: "/" for a folder."""
    for base, spec in reversed(rules):
        included = spec.check_file(path.relative_to(base).as_posix() + end).include
        if included is not None:
            return included
    return False
