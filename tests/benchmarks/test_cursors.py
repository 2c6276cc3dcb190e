from __future__ import annotations

import pytest

from engine.errors import DraftlineError
from lsp_server.documents import Cursor
from tests.benchmarks.cursors import LEAST_CODE, MOST_LINES, Case, cases, names_from_elsewhere

FILE = '''"""A module.

It says: x = 1
"""

import os  # the system


class Shelf:
    """What stands on it."""

    def put(self, book: str) -> None:
        if book in (
            "Emma",
            "Ulysses",
        ):
            # both are lent
            return

        self.books.append(book)

    books: list[str] = []
'''
ALL = 2 * 4 * (LEAST_CODE + 5)  # every statement of four such files, and as many cursors in lines


@pytest.fixture
def folder(tmp_path):
    for package in ("one", "two"):
        for name in ("a.py", "b.py"):
            path = tmp_path / package / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(FILE + "VALUE = compute(1)\n" * LEAST_CODE, encoding="utf-8")
        (tmp_path / package / "broken.py").write_text("def f(:\n  '''" * LEAST_CODE, encoding="utf-8")
    return tmp_path


def test_what_is_missing_put_back_at_the_cursor_gives_the_file(folder):
    for case in cases(folder, 60):
        line = case.lines[case.cursor.line]
        assert line[case.cursor.character :] == "\n"
        mended = [*case.lines]
        mended[case.cursor.line] = line[:-1] + "\n".join(case.missing) + "\n"
        theirs = [line.rstrip() for line in case.path.read_text("utf-8").split("\n")]
        # a comment behind the code is part of the line, and what blank lines hold is nobody's business
        assert [line.rstrip() for line in "".join(mended).split("\n")] == theirs


def test_half_the_cursors_stand_in_a_line_and_half_at_a_new_one(folder):
    found = cases(folder, 40)
    assert [case.kind for case in found] == ["mid-line", "line-start"] * 20
    for case in found:
        left = case.lines[case.cursor.line][: case.cursor.character]
        assert bool(left.strip()) == (case.kind == "mid-line")


def test_packages_and_files_take_turns_and_no_place_comes_twice(folder):
    found = cases(folder, 40)
    assert {case.path.parent.name for case in found[:4]} == {"one", "two"}
    assert len({case.path for case in found[:8]}) == 4
    places = [(case.path, case.kind, case.cursor.line) for case in found]
    assert len(set(places)) == len(places)


def test_a_statement_goes_with_its_block_and_without_the_blank_lines_below(folder):
    heads = {case.missing[0]: case.missing for case in cases(folder, ALL) if case.kind == "line-start"}
    assert heads["if book in ("][-2:] == ["            # both are lent", "            return"]
    assert heads["return"] == ["return"]
    assert "class Shelf:" not in heads, f"it has more than {MOST_LINES} lines"


def test_docstrings_and_comments_are_no_places(folder):
    for case in cases(folder, ALL):
        line = case.lines[case.cursor.line][:-1] + case.missing[0]
        assert not line.lstrip().startswith(("#", '"', "It says"))


def test_the_same_seed_gives_the_same_cursors(folder):
    assert cases(folder, 20, seed=3) == cases(folder, 20, seed=3)
    assert cases(folder, 20, seed=3) != cases(folder, 20, seed=4)


def test_too_many_cursors_are_refused_in_one_sentence(folder):
    with pytest.raises(DraftlineError, match="places of the kind mid-line where 5000 are wanted"):
        cases(folder, 10_000)


def test_a_name_from_elsewhere_is_new_here_and_stands_in_another_file_of_the_package(tmp_path):
    (tmp_path / "here.py").write_text("shelf = known(lonely)\n")
    (tmp_path / "there.py").write_text("def put_away(): print(known)\n")
    lines, missing = ["def known(): ...\n", "shelf = \n"], ["put_away(known, lonely, print)"]
    case = Case("mid-line", tmp_path, tmp_path / "here.py", lines, Cursor(1, 8), missing)
    assert names_from_elsewhere(case) == {"put_away"}
