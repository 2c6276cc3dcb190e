"""What is missing in library code is suggested whole, if the model writes it, and nothing doubled."""

from __future__ import annotations

import email
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from lsp_server.completer import place_of
from lsp_server.documents import Cursor, split_lines
from lsp_server.stopping import end_of_suggestion
from lsp_server.trimming import trim

CURSORS = 300
MOST_WRONG = 0.01  # rulers, and brackets that a line above opened


def inserted(lines: list[str], cursor: Cursor, written: str) -> str:
    place = place_of(lines, cursor)
    end = end_of_suggestion(written, place)
    return trim(written[:end], place, end is None, went_on=end is not None)


def places() -> Iterator[tuple[list[str], int, int, int]]:
    """Lines of a file, the number of one, and two places in it, the second behind the first."""
    dice = random.Random(7)
    files = [path for package in (email, json) for path in sorted(Path(package.__path__[0]).glob("*.py"))]
    texts = [split_lines(path.read_text(encoding="utf-8")) for path in files]
    texts = [lines for lines in texts if len(lines) > 50]
    for _ in range(CURSORS):
        lines = dice.choice(texts)
        number = dice.choice([n for n in range(5, len(lines) - 20) if len(lines[n].strip()) > 8])
        line = lines[number].rstrip("\n")
        first = dice.randrange(len(line) - len(line.lstrip()), len(line))
        yield lines, number, first, dice.randrange(first, len(line))


def share_wrong(wrong: list[tuple[str, str, str]]) -> None:
    assert len(wrong) <= MOST_WRONG * CURSORS, wrong


def test_the_rest_of_a_line_is_suggested_and_the_lines_below_are_not():
    wrong = []
    for lines, number, first, _ in places():
        left, rest = lines[number][:first], lines[number][first:].rstrip("\n")
        text = [*lines[:number], left + "\n", *lines[number + 1 :]]
        got = inserted(text, Cursor(number, first), rest + "\n" + "".join(lines[number + 1 : number + 6]))
        if got != rest.rstrip():
            wrong.append((left, rest, got))
    share_wrong(wrong)


@pytest.mark.parametrize(
    "ends", [True, False], ids=["the model ends there", "the model writes the line again"]
)
def test_the_middle_of_a_line_is_suggested_and_its_end_is_not(ends: bool):
    wrong = []
    for lines, number, first, last in places():
        line = lines[number].rstrip("\n")
        left, middle, right = line[:first], line[first:last], line[last:]
        if not middle.strip():
            continue
        text = [*lines[:number], left + right + "\n", *lines[number + 1 :]]
        got = inserted(
            text, Cursor(number, first), middle if ends else f"{middle}{right}\n{lines[number + 1]}"
        )
        if got.rstrip() != middle.rstrip():
            wrong.append((left, right, got))
    share_wrong(wrong)


def test_of_missing_lines_nothing_that_follows_them_is_suggested():
    wrong = []
    for lines, number, first, _ in places():
        left, missing = lines[number][:first], "".join(lines[number : number + 5])[first:]
        text = [*lines[:number], left + "\n", *lines[number + 5 :]]
        got = inserted(text, Cursor(number, first), missing + "".join(lines[number + 5 : number + 11]))
        if not missing.startswith(got):
            wrong.append((left, missing, got))
    share_wrong(wrong)
