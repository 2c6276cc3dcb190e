"""Where a suggestion ends: `|` is the cursor, and `¶` the place where the model's text is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.stopping import Place, end_of_suggestion


def place(left="", right="", below=()):
    return Place(left, right, tuple(below))


def test_with_text_right_of_the_cursor_it_is_the_line():
    assert end_of_suggestion("a, b\nc", place("f(", ")")) == 4
    assert end_of_suggestion("a, b", place("f(", ")")) is None


def test_a_line_of_its_own_is_left_out_but_not_this_one():
    assert end_of_suggestion("import a\nx", place("", "import b")) == 0
    assert end_of_suggestion("async def f():\n", place("    ", "def f():")) == 14


@pytest.mark.parametrize(
    ("left", "written"),
    [
        # the body that belongs to what the user has begun
        ("def f():", "\n    a\n\n    b¶\ndef g"),
        ("    if a:", "\n        b¶\n    c"),
        # the statement and its neighbours, up to where the block is left
        ("    x = ", "1\n    y = 2¶\nz"),
        ("    ", "x = 1\n    for a in b:\n        c\n    d¶\ne"),
        ("", "def f():\n    a¶\nb"),
        ("", "\ndef f():\n    a¶\nb"),
        # the closing bracket belongs to it
        ("function f() {", "\n  a;\n}¶\nb"),
        ("x = [", "\n    1,\n]¶\ny"),
        ("def f(", "\n    a,\n):\n    return a¶\ndef"),
        # a run of blank lines
        ("x = ", "1¶\n\n\ny"),
        ("\tif a:", "\n\t\tb¶\n\tc"),
        # what brackets hold together, however it is indented
        ("switch x {", "\ncase 1:\n    a\ncase 2:\n    b\n}¶\ny"),
        ("x = [", "\n1,\n2,\n]¶\ny"),
        ("int f(int a)", "\n{\n    g(a);\n}¶\nint h"),
        ("if (a) {", "\n    b(')');\n} else {\n    c;\n}¶\nd"),
        ("f(", "\na, ')', # :)\nb)¶\nc"),
        # and long strings
        ("    a = ", "'''\nb\n  c\n'''\n    d¶\ne"),
        ("    the sum", ' (of all\n    of them."""\n    return 1¶\nb'),
        ("    the sum", '.\n    """\n    return 1¶\nb'),
        ("def f():", '\n    """The sum (of all\n\n    of them."""\n    return 1¶\nb'),
        # its first time, where the model begins to repeat itself
        ("x = ", "f(1)¶\nx = f(1)\nx = f(1)\n"),
    ],
)
def test_otherwise_it_is_the_block(left, written):
    end = written.index("¶")
    assert end_of_suggestion(written.replace("¶", ""), place(left)) == end


@pytest.mark.parametrize(
    ("left", "below", "written", "end"),
    [
        ("x = (", ["    1", ")"], "\n    2\n", 0),
        ("def f(self", ["        return 1"], "):\n        return 2\n", 2),
        ("\tif a", ["\t\tb"], " and c:\n\t\tb", 7),
        ("x = foo", ["    .bar()"], "(1)\n", 3),
        ("x = (", [")"], "\n    2\n)\n", 6),  # there is no body yet
    ],
)
def test_where_its_body_stands_below_already_it_is_the_line(left, below, written, end):
    assert end_of_suggestion(written, place(left, below=below)) == end


def test_a_line_says_the_same_but_once():
    assert end_of_suggestion("self." * 8, place("x = ", ")")) == 5


def test_blank_lines_before_its_first_line_do_not_end_it():
    assert end_of_suggestion("\n\ndef f", place()) is None


def test_nothing_but_blank_lines_ends_it():
    assert end_of_suggestion("\n\n\n\n", place()) == 0


def test_it_ends_where_the_text_below_begins():
    assert end_of_suggestion("b = 1\nc = 2\n", place("", below=["c = 2"])) == 5


pieces = st.lists(
    st.sampled_from(["\n", "    ", "a", ")", "if:", "b = 1", "\t", "{", "}\n", "'''", "x = 1\n"]), max_size=25
)


@given(pieces, st.sampled_from(["", "    ", "if a:", "    f(", "x = "]), st.sampled_from(["", ")"]))
def test_an_end_once_seen_stays_where_it_is(written, left, right):
    seen = None
    for length in range(len(written) + 1):
        end = end_of_suggestion("".join(written[:length]), place(left, right, ["b = 1"]))
        if seen is not None:
            assert end == seen
        seen = end
