"""Saying the same again and again is told from rows that are alike; `¶` is where the first time ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.repetition import first_repetition


@pytest.mark.parametrize(
    ("left", "written"),
    [
        ("", "x = f(1)¶\nx = f(1)\nx = f(1)\n"),
        ("    ", "print(a)¶\n    print(a)\n    print(a)\n"),
        ("", "y = 1\nif a:\n    b()¶\nif a:\n    b()\nif a:\n    b()\n"),
        ("", "def f(self):\n    return 1\n\n¶\ndef f(self):\n    return 1\n\n\n"),
        ("", "x = foo.bar.¶" + "foo.bar." * 10),
        ("", "return self.¶" + "self." * 10),
        ("", "ok = 1\nx = [0, ¶" + "0, " * 20),
        ("", "a¶" + "a" * 60),
        ("", "    0.0, 1,¶\n" + "    0.0, 1,\n" * 6),
    ],
)
def test_what_is_said_again_and_again(left, written):
    repetition = first_repetition(written.replace("¶", ""), left)
    assert repetition is not None
    at = written.index("¶")
    # a rotation of what is repeated is as good
    assert abs(repetition.end - at) <= 8 if "\n" not in written[at:] else repetition.end == at


@pytest.mark.parametrize(
    "written",
    [
        "x1 = f(1)\nx2 = f(2)\nx3 = f(3)\nx4 = f(4)\n",
        "    (1, 'one'),\n    (2, 'two'),\n    (3, 'three'),\n    (4, 'four'),\n",
        "    [0, 0, 0],\n    [0, 0, 0],\n    [0, 0, 0],\n    [0, 0, 0],\n",
        "next(it)\nnext(it)\nx = next(it)\n",
        "        }\n    }\n}\n}\n}\n",
        "</ul>\n  </li>\n</ul>\n",
        "# ------------------------------------------------------------------\n",
        "==================================================================\n",
        "x = [0, 0, 0, 0, 0, 0, 0, 0]\n",
        "if a:\n    return 1\nif b:\n    return 1\nif c:\n    return 1\n",
        "\n\n\n\n\n",
        "assert f(1) == 1\nassert f(1) == 1\n",
        "self.assertEqual(self.a.b, self.a.c, self.a.d)\n",
        " " * 80,
    ],
)
def test_rows_that_are_alike_and_short_runs_are_no_repetition(written):
    assert first_repetition(written, "") is None


pieces = st.lists(st.sampled_from(["ab", "a", ", ", "x = 1\n", "y,\n", "\n", "  "]), max_size=40)


@given(pieces, st.sampled_from(["", "a", "x = "]))
def test_one_once_seen_stays_and_ends_before_it_is_seen(written, left):
    text = "".join(written)
    seen = None
    for length in range(len(text) + 1):
        repetition = first_repetition(text[:length], left)
        if seen is not None:
            assert repetition == seen
        elif repetition is not None:
            assert repetition.end < repetition.seen == length
        seen = repetition


@given(st.text("ab0, .(", min_size=1, max_size=40), st.text("xyz \n", max_size=10))
def test_whatever_is_repeated_within_a_line_is_seen(unit, before):
    copies = max(4, -(-32 // len(unit))) + 1
    expected = any(character.isalnum() for character in unit)
    assert (first_repetition(before.rstrip() + unit * copies, "") is not None) >= expected
