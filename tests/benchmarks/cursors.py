"""Places in real Python files where something was taken out that a suggestion is to put back.

The document is what an editor holds while its user writes that piece for the first time:

- ``mid-line``: the cursor stands somewhere in a line of code, in mid-word or between words, and everything
  right of it on this line is gone, whole brackets and all. Brackets that an editor may close by itself are
  not put in: they would give a part of the answer away, and to everyone the same.
- ``line-start``: the cursor stands behind the indentation of a new line, as after Enter. The statement that
  the line begins, with all that is indented below it (at most 8 lines), is gone.

The file above and below stays as it is. Comments and docstrings are context, but no places to complete.
"""

from __future__ import annotations

import builtins
import functools
import io
import keyword
import random
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

from engine.errors import DraftlineError
from lsp_server.documents import Cursor, split_lines

T = TypeVar("T")
Kind = Literal["mid-line", "line-start"]
KINDS: tuple[Kind, ...] = ("mid-line", "line-start")

MOST_LINES = 8  # taken out
LONGEST_LINE = 160
LEAST_MISSING = 3  # characters of the line
LEAST_CODE = 30  # lines of code in a file
LARGEST_FILE = 300_000  # bytes; longer ones are tables
_LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Case:
    """A cursor in the file ``path`` of ``package``, the document's ``lines`` (with line ends) and what is
    missing there.

    package: a folder. missing: lines without line ends; the first is what the cursor's own line lacks.
    """

    kind: Kind
    package: Path
    path: Path
    lines: list[str]
    cursor: Cursor
    missing: list[str]


_NAME = re.compile(r"[^\W\d]\w{3,}")
_EVERYWHERE = {*dir(builtins), *keyword.kwlist}

_Cut = tuple[list[str], Cursor, list[str]]  # the document, the cursor, what is missing


@dataclass(frozen=True)
class _Statement:
    """Its first and last line, from 0. A compound statement's body is not part of it."""

    first: int
    last: int
    indentation: int


def cases(folder: Path, count: int, seed: int = 0) -> list[Case]:
    """``count`` cursors below ``folder``, half of each kind, in its subfolders and their files by turns.

    Raises:
        DraftlineError: there are not so many places.
    """
    packages = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    halves = []
    for kind, wanted in zip(KINDS, (count - count // 2, count // 2), strict=True):
        found = list(islice(_by_turns(_cases_in(package, kind, seed) for package in packages), wanted))
        if len(found) < wanted:
            raise DraftlineError(
                f"{folder} has {len(found)} places of the kind {kind} where {wanted} are wanted; "
                "ask for fewer."
            )
        halves.append(iter(found))
    return list(_by_turns(halves))


def names_from_elsewhere(case: Case) -> set[str]:
    """What of the missing line's names the document lacks and another file of the package has."""
    here = _names("".join(case.lines)) | _EVERYWHERE
    there = (names for path, names in _names_in(case.package).items() if path != case.path)
    return (_names(case.missing[0]) - here) & set().union(*there)


@functools.cache
def _names_in(package: Path) -> dict[Path, set[str]]:
    files = package.rglob("*.py")
    return {path: _names(path.read_text(encoding="utf-8", errors="replace")) for path in files}


def _names(text: str) -> set[str]:
    return set(_NAME.findall(text))


def _cases_in(package: Path, kind: Kind, seed: int) -> Iterator[Case]:
    rng = random.Random(f"{seed} {kind} {package.name}")
    files = [path for path in sorted(package.rglob("*.py")) if "generated" not in path.name]
    rng.shuffle(files)
    return _by_turns(_cases_of(package, path, kind, rng) for path in files)


def _cases_of(package: Path, path: Path, kind: Kind, rng: random.Random) -> Iterator[Case]:
    if path.stat().st_size > LARGEST_FILE:
        return
    text = path.read_text(encoding="utf-8", errors="replace")  # makes "\n" of every line end
    statements, code = _read(text)
    if len(code) < LEAST_CODE:
        return
    lines = split_lines(text)
    if kind == "mid-line":
        for row in rng.sample(code, len(code)):
            if cut := _cut_in_line(lines, row, rng):
                yield Case(kind, package, path, *cut)
    else:
        for number in rng.sample(range(len(statements)), len(statements)):
            if cut := _cut_statement(lines, statements, number):
                yield Case(kind, package, path, *cut)


def _cut_in_line(lines: list[str], row: int, rng: random.Random) -> _Cut | None:
    line = lines[row].rstrip()
    columns = range(len(line) - len(line.lstrip()) + 1, len(line) - LEAST_MISSING + 1)
    if not columns or len(line) > LONGEST_LINE:
        return None
    column = rng.choice(columns)
    document = [*lines[:row], line[:column] + "\n", *lines[row + 1 :]]
    return document, Cursor(row, column), [line[column:]]


def _cut_statement(lines: list[str], statements: list[_Statement], number: int) -> _Cut | None:
    head = statements[number]
    last = head.last
    for below in statements[number + 1 :]:
        if below.indentation <= head.indentation:
            break
        last = below.last
    missing = [line.rstrip() for line in lines[head.first : last + 1]]
    missing[0] = missing[0][head.indentation :]
    if len(missing) > MOST_LINES or not LEAST_MISSING <= len(missing[0]) <= LONGEST_LINE:
        return None
    typed = lines[head.first][: head.indentation]
    document = [*lines[: head.first], typed + "\n", *lines[last + 1 :]]
    return document, Cursor(head.first, head.indentation), missing


def _read(text: str) -> tuple[list[_Statement], list[int]]:
    """The statements of a file in order, but for bare strings, and its lines that begin with code."""
    lines = text.split("\n")
    statements: list[_Statement] = []
    code: list[int] = []
    first: tokenize.TokenInfo | None = None
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.start[0] - 1, token.start[1]
            if token.type in _LAYOUT:
                continue
            if token.type == tokenize.NEWLINE:
                if first is not None and first.type == tokenize.NAME:
                    statements.append(_Statement(first.start[0] - 1, row, first.start[1]))
                first = None
                continue
            first = first or token
            if token.type in (tokenize.NAME, tokenize.OP) and not lines[row][:column].strip():
                code.append(row)
    except (tokenize.TokenError, SyntaxError):
        return [], []
    return statements, code


def _by_turns(many: Iterable[Iterator[T]]) -> Iterator[T]:
    """One of each, then the next of each, and so on; those that have no more are passed over."""
    missing = object()
    left = list(many)
    while left:
        taken = [(one, next(one, missing)) for one in left]
        left = [one for one, item in taken if item is not missing]
        yield from (item for _, item in taken if item is not missing)  # type: ignore[misc]
