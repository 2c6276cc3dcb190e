"""A suggestion is indented as the file is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.indentation import Style, indentation, style_near


@pytest.mark.parametrize(
    ("lines", "line", "step"),
    [
        (["a\n", "\tb\n", "\t\tc\n", ""], 3, "\t"),
        (["a\n", "  b\n", "    c\n", ""], 3, "  "),
        (["a\n", "    b\n", "        c\n", ""], 3, "    "),
        (["a\n", "b"], 1, ""),
        (["\ta\n", "    b\n", "\tc\n", ""], 3, "\t"),  # most are
        (["    a\n", "    b\n", "\tc"], 2, "\t"),  # but the cursor's own tells best
        (["/*\n", " * a\n", " */\n", ""], 3, ""),  # no indentation at all
        ([f"\t{'x' * 1_000_000}\n", ""], 1, "\t"),
    ],
)
def test_the_step_is_told_from_the_lines_round_the_cursor(lines, line, step):
    assert style_near(lines, line) == Style(step)


@pytest.mark.parametrize(
    ("step", "left", "written", "inserted"),
    [
        ("\t", "if a:", "\n    b\n        c", "\n\tb\n\t\tc"),
        ("\t", "", "    b  c\n    d", "\tb  c\n\td"),
        ("\t", "\t", "    b", "\tb"),
        ("\t", "x = ", "    1", "    1"),  # no indentation
        ("\t", "x", "  ", "  "),
        ("\t", "", "/**\n * a\n */", "/**\n * a\n */"),
        ("\t", "", "a\n      b", "a\n\t\tb"),
        ("\t", "", "a\n\t  b", "a\n\t  b"),  # aligned
        ("    ", "if a:", "\n\tb\n\t\tc\td", "\n    b\n        c\td"),
        ("  ", "if a:", "\n\tb", "\n  b"),
        ("  ", "if a:", "\n    b", "\n    b"),
        ("", "if a:", "\n\tb", "\n\tb"),
    ],
)
def test_lines_are_indented_by_it(step, left, written, inserted):
    assert Style(step).applied(written, left) == inserted


@given(
    st.text(st.sampled_from("ab \t\n*"), max_size=30),
    st.sampled_from(["", "\t", "x"]),
    st.sampled_from("\t "),
)
def test_the_answer_grows_with_the_text(written, left, step):
    style = Style(step if step == "\t" else "  ")
    before = ""
    for length in range(len(written) + 1):
        after = style.applied(written[:length], left)
        assert after.startswith(before)
        before = after


@given(st.text(st.sampled_from("ab \t\n"), max_size=30), st.sampled_from(["", "\t", "  "]))
def test_nothing_but_blanks_is_changed(written, step):
    assert "".join(Style(step).applied(written, "").split()) == "".join(written.split())


def test_a_tab_counts_as_four_columns():
    assert [indentation(line) for line in ("a", "\ta", "    a", "  \ta", "")] == [0, 4, 4, 4, 0]
