"""Where the demo asks: three kinds of cursor, found by reading a repository's source files in order.

Two of them stand where somebody is writing: what comes next in the file is taken out of the editor's
text (never of the file), so that the model has to write it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from engine.errors import DraftlineError
from lsp_server.documents import Cursor, split_lines, without_line_end
from model_setup.corpus import CorpusReport, read_sources

MID_FUNCTION = "in mid-function"
IN_BRACKETS = "inside a call's brackets"
BETWEEN_FUNCTIONS = "on an empty line between two functions"
KINDS = (MID_FUNCTION, IN_BRACKETS, BETWEEN_FUNCTIONS)
_MOST_FILES = 2000  # looked at
_CHOICE = 6  # places of each kind, each in another file


@dataclass(frozen=True)
class DemoPlace:
    """path: relative to the repository. text: the file's. From cursor to end it is taken out."""

    kind: str
    path: Path
    text: str
    cursor: Cursor
    end: Cursor


def find_places(repository: Path) -> dict[str, list[DemoPlace]]:
    """For each kind the first places in the repository, at most one in each file; those in the language that
    most of its files have come first.

    Raises:
        DraftlineError: there are none at all.
    """
    places: dict[str, list[DemoPlace]] = {kind: [] for kind in KINDS}
    sources = list(islice(read_sources(repository, CorpusReport()), _MOST_FILES))
    files = Counter(source.path.suffix for source in sources)
    for source in sorted(sources, key=lambda source: -files[source.path.suffix]):
        if all(len(found) >= _CHOICE for found in places.values()):
            break
        if (repository / source.path).read_bytes() != source.text.encode("utf-8"):
            continue  # not UTF-8, or without its secret lines: its lines are not the file's
        lines = split_lines(source.text)
        finders = _PYTHON if source.path.suffix == ".py" else _ANY_LANGUAGE
        for kind, find in finders.items():
            if len(places[kind]) < _CHOICE and (span := next(find(lines), None)):
                places[kind].append(DemoPlace(kind, source.path, source.text, *span))
    if not any(places.values()):
        raise DraftlineError(
            f"{repository} has no source file with functions to complete; run the demo in one that has."
        )
    return places


Span = tuple[Cursor, Cursor]
Finder = Callable[[list[str]], Iterator[Span]]


def _python_mid_function(lines: list[str]) -> Iterator[Span]:
    """In the middle of a function of some length, where a value is to be written; the rest is taken out."""
    for function in _functions(lines):
        for statement in function.body[len(function.body) // 2 :]:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Return)) or statement.value is None:
                continue
            end = _end(function, lines)
            if len(function.body) >= 4 and statement.lineno - 1 < end.line < statement.lineno + 30:
                yield _start(statement.value, lines), end


def _python_in_brackets(lines: list[str]) -> Iterator[Span]:
    """Behind a call's opening bracket; its arguments, at least two and all on one line, are taken out."""
    for function in _functions(lines):
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or len(call.args) + len(call.keywords) < 2:
                continue
            arguments: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
            start = min(_start(argument, lines) for argument in arguments)
            close = _end(call, lines)
            end = Cursor(close.line, close.character - 1)
            line = lines[start.line]
            if start.line == end.line and line[start.character - 1] == "(" and line[end.character] == ")":
                yield start, end


def _python_between_functions(lines: list[str]) -> Iterator[Span]:
    tree = _parsed(lines)
    for owner in (node for node in ast.walk(tree) if isinstance(node, (ast.Module, ast.ClassDef))):
        for above, below in zip(owner.body, owner.body[1:], strict=False):
            if not (_is_function(above) and _is_function(below)):
                continue
            blank = _end(above, lines).line + 1
            if not lines[blank].strip() and not lines[min(blank + 1, len(lines) - 1)].strip():
                blank += 1  # the second of two
            if not without_line_end(lines[blank]):
                yield Cursor(blank, 0), Cursor(blank, 0)


def _mid_function(lines: list[str]) -> Iterator[Span]:
    """An indented line from the file's middle on that gives a value; the rest of the line is taken out."""
    for number in range(len(lines) // 2, len(lines)):
        if value := re.match(r"\s+(?:return |[^=\"']*[^=!<>:+*/-] = )(?=\S{4})", lines[number]):
            yield Cursor(number, value.end()), Cursor(number, len(without_line_end(lines[number])))


def _in_brackets(lines: list[str]) -> Iterator[Span]:
    for number, line in enumerate(lines):
        if call := re.match(r"\s+.*\w\(([^()\"']+, [^()\"']+)\)", line):
            yield Cursor(number, call.start(1)), Cursor(number, call.end(1))


def _between_functions(lines: list[str]) -> Iterator[Span]:
    for number in range(1, len(lines) - 1):
        above, line, below = (without_line_end(text) for text in lines[number - 1 : number + 2])
        if above in {"}", "end"} and not line and re.match(r"\w.*\(", below):
            yield Cursor(number, 0), Cursor(number, 0)


_PYTHON: dict[str, Finder] = {
    MID_FUNCTION: _python_mid_function,
    IN_BRACKETS: _python_in_brackets,
    BETWEEN_FUNCTIONS: _python_between_functions,
}
_ANY_LANGUAGE: dict[str, Finder] = {
    MID_FUNCTION: _mid_function,
    IN_BRACKETS: _in_brackets,
    BETWEEN_FUNCTIONS: _between_functions,
}

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


def _parsed(lines: list[str]) -> ast.AST:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the file's own escapes
            return ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _functions(lines: list[str]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(_parsed(lines)) if isinstance(node, Function))


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, Function)


def _start(node: ast.expr | ast.keyword, lines: list[str]) -> Cursor:
    return _cursor(node.lineno, node.col_offset, lines)


def _end(node: ast.expr | ast.stmt, lines: list[str]) -> Cursor:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return _cursor(node.end_lineno, node.end_col_offset, lines)


def _cursor(number: int, offset: int, lines: list[str]) -> Cursor:
    """From ast's positions: lines from 1, columns in UTF-8 bytes."""
    return Cursor(number - 1, len(lines[number - 1].encode("utf-8")[:offset].decode("utf-8")))
