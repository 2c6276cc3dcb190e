"""Nothing is inserted that the text already has right of the cursor or below it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.stopping import Place
from lsp_server.trimming import line_end, trim


@pytest.mark.parametrize(
    ("left", "right", "written", "inserted"),
    [
        ("a = numpy.array(", ")", "[1, 2])", "[1, 2]"),
        ("foo(bar(", ")", "x)", "x)"),  # this one closes bar, the other foo
        ("f(", ")", "a).g(", "a).g("),
        ("f(", ")", "a).g()", "a).g("),
        ("print(", ")", "x.a())  # Output: 1", "x.a()"),
        ('print("', '")', 'hello")', "hello"),
        ('x = "', '"', 'a"', "a"),
        ("x[", "]:", "1]:", "1"),
        ("f(g[", "])", "0])", "0"),
        ("for i in ran", ":", "ge(10) :", "ge(10)"),
        ("if a", ":", " and b:", " and b"),
        ("[a, ", ",", "b,", "b"),
        ("x = ", ";", "f();  ", "f()"),
        ("def f(a", ": int", ", b: int", ", b"),
        ("if a", ":", " == {1: 2}", " == {1: 2}"),
        ("b=", " # t", "1 # t", "1"),
        ("return ", "+ b", "a + b", "a "),
        ("x = f(", ")", "y", "y"),
        ("x = f(", ")", "   ", ""),
        ("f(g[", "])", "0)", "0"),
        ("f(a, ", "')", "'rb')", "'rb"),
        ("f(a[b", ")", "])", "]"),
        ("def ind", "):", "ent(line):", "ent(line"),
        ("    a, ", ")", "f(b)", "f(b)"),  # this one closes what a line above opened
        ("x", "y", ".", "."),
        ("/sp", "o", "am.fo", "am.fo"),
        ("a + ", "b", "c + b", "c + "),
        ("f(", ") + g(x)", "a)) + g(x)", "a"),
    ],
)
def test_what_stands_right_of_the_cursor_is_not_doubled(left, right, written, inserted):
    assert trim(written, Place(left, right, ()), unfinished=False) == inserted


def test_a_line_that_was_written_to_its_end_has_its_rest_again():
    assert trim("am.foo", Place("/sp", "o", ()), unfinished=False, went_on=True) == "am.fo"
    assert trim("= ord(c)", Place("c ", ")", ()), unfinished=False, went_on=True) == "= ord(c"
    assert trim("x)", Place("foo(bar(", ")", ()), unfinished=False, went_on=True) == "x)"


@pytest.mark.parametrize(
    ("left", "below", "written", "inserted"),
    [
        ("", ["b=2", "c=3"], "b=2\nc=3", ""),
        ("", ["b=2", "c=3"], "x=5\nb=2", "x=5"),
        ("", ["b=2", "c=3"], "x=5\n\nb=2\nc=3", "x=5"),
        ("", ["b=2", "c=3"], "x=5\nc=3", "x=5"),
        ("", ["    return x", "y"], "    return x", ""),
        ("    ", ["    return x", "y"], "return x", ""),
        ("    if (a) {", ["}"], "\n        b\n    }", "\n        b\n    }"),
        ("", ["b=2"], "x\nb=2\nz", "x\nb=2\nz"),
        ("", ["a=1", "b=2", "c=3"], "x=5\nc=3", "x=5\nc=3"),  # one line alike, further down
        ("", ["a=1", "b=2", "c=3", "d=4"], "x=5\nc=3\nd=4", "x=5"),
        ("ret", ["a=1", "return x"], "urn x", "urn x"),  # this one was asked for
        ("ret", ["return x"], "urn x", ""),
    ],
)
def test_the_lines_below_are_not_repeated(left, below, written, inserted):
    assert trim(written, Place(left, "", tuple(below)), unfinished=False) == inserted


@pytest.mark.parametrize(
    ("above", "left", "below", "written", "inserted"),
    [
        (["x = ["], "    ", ["]"], "1, 2]", "1, 2"),
        (["x = ["], "    ", ["]"], "[1],\n    [2]]", "[1],\n    [2]"),
        ([], "x = [", ["]"], "1, 2]", "1, 2"),
        (["f({"], "    ", ["})"], "a: g(1)})", "a: g(1)"),
        (["foo("], "    ", [")"], "a\n    )", "a"),  # deeper than any opening one
        # this one closes another, which the text does not have yet
        (["    if (a) {", "function f() {"], "        ", ["}"], "b;\n    }", "b;\n    }"),
        (["x = ["], "    ", ["]"], "f(')]'),  # :-]", "f(')]'),  # :-]"),
        (["x = 1"], "", ["y = (", ")"], "f()", "f()"),
        (["        for a in f(b", "    if (any(c"], "            ", ["    ):"], "in d))", "in d))"),
    ],
)
def test_brackets_that_the_next_line_closes_are_not_closed_again(above, left, below, written, inserted):
    assert trim(written, Place(left, "", tuple(below), tuple(above)), unfinished=False) == inserted


inner = st.text(st.sampled_from("ab()[]{}, \n"), max_size=12)
PAIRS = {"(": ")", "[": "]", "{": "}"}


@given(st.sampled_from("([{"), st.sampled_from(["", "f", "x = f(a)"]), inner)
def test_a_bracket_that_the_editor_closed_is_not_closed_again(opening, before, written):
    """On its line, or after Enter on the line below."""
    line = before + opening
    closing = PAIRS[opening]
    for place in (
        Place(line, closing, ()),
        Place("    ", "", (closing,), (line,)),
        Place(line, "", (closing,), ()),
    ):
        text = written.replace("\n", " ") if place.right else written
        inserted = trim(text, place, unfinished=False)
        assert inserted.count(closing) <= inserted.count(opening)


@pytest.mark.parametrize(
    "control", ["<|endoftext|>", "<|fim_pad|>", "</fim_middle>", "<fim_suffix>", "<EOT>"]
)
def test_control_tokens_that_are_spelled_out_end_it(control):
    assert trim(f"a{control}b", Place("x = ", "", ()), unfinished=False) == "a"


@pytest.mark.parametrize("control", ["\0", "\b", "\x1b[31m", "\x1f", "\x7f", "\x9b31m"])
def test_so_do_control_characters_which_a_terminal_would_obey(control):
    assert trim(f"a\t{control}b", Place("x = ", "", ()), unfinished=False) == "a"
    assert trim(f"a\t{control}b)", Place("f(", ")", ()), unfinished=False) == "a\t"


@pytest.mark.parametrize("written", ["#", "  # ", "//", "/*"])
def test_a_mere_sign_is_no_suggestion(written):
    assert trim(written, Place("x", "", ()), unfinished=False) == ""


@pytest.mark.parametrize("written", ["...", ".", ":", ")", "/>", "#####", "# x", "* 2", "--"])
def test_signs_that_say_something_are(written):
    assert trim(written, Place("x", "", ()), unfinished=False) == written


def test_a_half_written_last_line_is_left_out_if_there_are_others():
    assert trim("a = 1\nb = fo", Place("", "", ()), unfinished=True) == "a = 1"
    assert trim("b = fo", Place("", "", ()), unfinished=True) == "b = fo"
    assert trim("\n    b = fo", Place("if a:", "", ()), unfinished=True) == "\n    b = fo"


@pytest.mark.parametrize("written", ["", "\n", "   \n\n", "\t"])
def test_blanks_are_no_suggestion(written):
    assert trim(written, Place("x", "", ()), unfinished=False) == ""


@given(
    st.text(st.sampled_from("ab()[]\"' \n"), max_size=20),
    st.text(st.sampled_from("ab()[]\"' "), max_size=6),
    st.text(st.sampled_from("ab()[]\"' "), max_size=6),
    st.lists(st.sampled_from(["a", "b", "(a)", "    b"]), max_size=3),
    st.booleans(),
)
def test_a_suggestion_is_a_beginning_of_what_the_model_wrote(written, left, right, below, unfinished):
    written = written if not right.strip() else written.replace("\n", "")
    assert written.startswith(trim(written, Place(left, right, tuple(below)), unfinished))


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [(["a\r\n", "b"], 1, "\r\n"), (["a\n", "b\r\n"], 1, "\r\n"), (["a\r", ""], 1, "\r"), (["a"], 0, "\n")],
)
def test_the_line_end_is_the_one_in_use_there(lines, line, expected):
    assert line_end(lines, line) == expected
