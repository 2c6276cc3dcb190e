"""Suggestions found again: at the same place, behind what was typed of them, and nowhere else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.cache import AFTER, BEFORE, Cache, Known, Window, window_of
from lsp_server.documents import Cursor, split_lines
from lsp_server.suggestion import Suggestion

URI = "file:///t.py"


def known(*texts):
    return Known(tuple(suggestion(text) for text in texts))


def suggestion(text):
    tokens = list(text.replace("\r\n", "\n"))
    return Suggestion(text, tokens, ["oracle"] * len(tokens), 1, 0.1)


def window(text, after=""):
    lines = split_lines(text + after)
    above = split_lines(text)
    return window_of(lines, Cursor(len(above) - 1, len(above[-1])))


def texts(found):
    return found and [one.text for one in found.suggestions]


def filled(*texts, before="x = ", after=""):
    cache = Cache()
    cache.put(URI, window(before, after), known(*texts))
    return cache


@pytest.mark.parametrize("typed", ["", "f", "foo(a,", "foo(a,\n    b"])
def test_what_is_left_is_found_behind_what_was_typed_across_lines(typed):
    cache = filled("foo(a,\n    b)")
    assert texts(cache.get(URI, window("x = " + typed))) == ["foo(a,\n    b)"[len(typed) :]]


def test_after_deleting_back_it_is_whole_again():
    cache = filled("foo()")
    for typed in ("f", "fo", "foo", "fo", ""):
        assert texts(cache.get(URI, window("x = " + typed))) == ["foo()"[len(typed) :]]


@pytest.mark.parametrize("typed", ["g", "fo)", "foo()", "foo()\n"])
def test_where_something_else_or_all_of_it_was_typed_nothing_is_found(typed):
    assert filled("foo()").get(URI, window("x = " + typed)) is None


def test_a_place_known_to_have_no_suggestion_is_found_but_not_behind_it():
    cache = filled("")
    assert texts(cache.get(URI, window("x = "))) == [""]
    assert cache.get(URI, window("x = a")) is None


def test_what_was_computed_for_the_very_place_goes_before_what_is_left_of_another():
    cache = filled("foo()")
    cache.put(URI, window("x = f"), known("or i in x"))
    assert texts(cache.get(URI, window("x = f"))) == ["or i in x"]


def test_of_several_those_are_left_that_begin_with_what_was_typed():
    cache = filled("foo()", "bar()", "bat()")
    assert texts(cache.get(URI, window("x = ba"))) == ["r()", "t()"]


def test_the_tokens_left_are_those_of_the_text_that_is_left():
    found = filled("ab\r\ncd").get(URI, window("x = ab\r\nc"))
    assert list(found.suggestions[0].tokens) == ["d"]
    assert len(found.suggestions[0].origins) == 1


@pytest.mark.parametrize(("before", "after"), [("y = ", ""), ("x = ", ")"), ("# more above\nx = ", "")])
def test_another_text_near_the_cursor_is_another_place(before, after):
    assert filled("foo()").get(URI, window(before, after)) is None


def test_another_document_is_another_place():
    assert filled("foo()").get("file:///u.py", window("x = ")) is None


def test_edits_far_from_the_cursor_do_not_matter():
    far, near_above, near_below = "a = 1\n", "b = 2\n" * (BEFORE // 6 + 1), "\nc = 3" * (AFTER // 6 + 1)
    cache = filled("foo()", before=far + near_above, after=near_below + far)
    assert texts(cache.get(URI, window("other\n\n" + near_above, near_below + "\nmore"))) == ["foo()"]


def test_the_least_recently_used_are_dropped_beyond_a_number():
    cache = Cache(entries=3)
    for name in "abc":
        cache.put(URI, window(name), known(name))
    cache.get(URI, window("a"))
    cache.put(URI, window("d"), known("d"))
    assert [bool(cache.get(URI, window(name))) for name in "abcd"] == [True, False, True, True]


def test_memory_is_bounded_however_long_the_suggestions_are():
    cache = Cache(size=100_000)
    for number in range(1000):
        cache.put(URI, window(f"{number} "), known("x" * (number % 50) * 10))
        cache.put(URI, window(f"{number} "), known("y" * (number % 70)))
    assert 5 < len(cache) < 250
    assert texts(cache.get(URI, window("999 "))) == ["y" * 19]


@given(st.lists(st.sampled_from(["", "a\n", "bc\r\n", "def\n", "g" * 3000 + "\n"]), min_size=1), st.data())
def test_the_window_is_the_text_round_the_cursor(parts, data):
    lines = [*parts, "end"]
    line = data.draw(st.integers(0, len(lines) - 1))
    character = data.draw(st.integers(0, len(lines[line])))
    before = "".join(lines[:line]) + lines[line][:character]
    after = lines[line][character:] + "".join(lines[line + 1 :])
    found = window_of(lines, Cursor(line, character))
    assert before.endswith(found.before)
    assert len(found.before) >= min(len(before), BEFORE)
    assert found.after == after[:AFTER]


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=12), st.data())
def test_any_beginning_that_was_typed_leaves_the_rest(before, text, data):
    cache = Cache()
    cache.put(URI, Window(before, ""), known(text))
    typed = text[: data.draw(st.integers(0, len(text)))]
    found = cache.get(URI, Window(before + typed, ""))
    rest = text[len(typed) :]
    assert texts(found) == ([rest] if rest.strip() or not typed else None)
