"""What became of suggestions, as the text and the editor tell."""

from __future__ import annotations

import pytest

from lsp_server.documents import Cursor, Document, end_of
from lsp_server.outcomes import Outcomes


class Desk:
    """A document with ``|`` at the cursor, where ``texts`` are shown."""

    def __init__(self, text, *texts):
        left, right = text.split("|")
        self.document = Document(left + right, encoding="utf-32")
        above = Document(left).lines
        self.cursor = Cursor(len(above) - 1, len(above[-1]))
        self.outcomes = Outcomes()
        self.number = self.show(*texts)

    def show(self, *texts, start=None):
        return self.outcomes.show("u", self.document.lines, start or self.cursor, self.cursor, texts)

    def insert(self, text, line=None, column=None):
        place = (self.cursor.line, self.cursor.character) if line is None else (line, column)
        self.document.edit(place, place, text)
        if line is None:
            self.cursor = end_of(self.cursor, text)
        self.outcomes.changed("u", self.document.lines)

    @property
    def counts(self):
        return {name: count for name, count in self.outcomes.counts.items() if count}


@pytest.mark.parametrize("text", ["x = |", "x = |\nbelow\n", "f(|)", "def f():\n    |\n\nx"])
@pytest.mark.parametrize("shown", ["a", "foo(a)", "a\n    b\nc", ")"])
def test_a_suggestion_that_stands_in_the_text_was_accepted(text, shown):
    desk = Desk(text, shown)
    desk.insert(shown)
    assert desk.counts == {"shown": 1, "accepted": 1}


def test_what_is_left_while_it_is_typed_is_the_same_suggestion():
    desk = Desk("x = |", "foo()")
    for typed in range(1, 5):
        desk.insert("foo()"[typed - 1])
        assert desk.show("foo()"[typed:]) == desk.number
    assert desk.counts == {"shown": 1}


def test_a_word_taken_and_the_rest_not_is_partly_accepted():
    desk = Desk("x = |", "foo(bar)")
    desk.insert("foo(")
    desk.insert("1")
    assert desk.counts == {"shown": 1, "partly": 1}


def test_one_character_of_it_typed_and_then_another_text_is_a_rejection():
    desk = Desk("x = |", "foo(bar)")
    desk.insert("f")
    desk.insert("1")
    assert desk.counts == {"shown": 1, "rejected": 1}


@pytest.mark.parametrize("typed", ["b", "  ", "bfoo()"])
def test_another_text_in_its_place_is_a_rejection(typed):
    desk = Desk("x = |\nbelow", "foo()")
    desk.insert(typed)
    assert desk.counts == {"shown": 1, "rejected": 1}


def test_an_edit_elsewhere_decides_nothing():
    desk = Desk("x = |\nbelow", "foo()")
    desk.insert("more", line=1, column=0)
    assert desk.counts == {"shown": 1}
    desk = Desk("top\nx = |\n" + "below\n" * 20, "foo()")
    desk.insert("more", line=0, column=0)
    desk.insert("more", line=15, column=0)
    assert desk.counts == {"shown": 1}
    desk.insert("foo()")
    assert desk.counts == {"shown": 1, "accepted": 1}


def test_any_of_the_alternatives_may_be_accepted():
    desk = Desk("x = |", "foo()", "bar()")
    desk.insert("bar()")
    assert desk.counts == {"shown": 1, "accepted": 1}


def test_alternatives_that_are_asked_for_later_may_be_accepted_too():
    desk = Desk("x = |", "foo()")
    assert desk.show("foo()", "bar()") == desk.number
    desk.insert("bar()")
    assert desk.counts == {"shown": 1, "accepted": 1}


def test_the_popup_s_item_stays_the_same_while_it_is_typed():
    desk = Desk("json.lo|\n", "")
    desk.outcomes = Outcomes()
    start = Cursor(0, 5)
    number = desk.show("loads(text)", start=start)
    desk.insert("a")
    assert desk.show("loads(text)", start=start) == number
    assert desk.counts == {"shown": 1}


def test_a_suggestion_elsewhere_or_of_another_text_takes_its_place():
    desk = Desk("x = |", "foo()")
    assert desk.show("bar()") != desk.number
    assert desk.counts == {"shown": 2, "rejected": 1}


def test_the_popup_s_item_at_its_beginning_stands_in_the_text_in_part():
    desk = Desk("json.lo|\n", "loads(text)")
    desk.outcomes.closed("u")
    desk.number = desk.show("loads(text)", start=Cursor(0, 5))
    desk.insert("ads(text)")
    assert desk.counts == {"shown": 2, "rejected": 1, "accepted": 1}


def test_the_editor_s_word_counts_once_whatever_the_text_says():
    desk = Desk("x = |", "foo()")
    desk.insert("foo()")
    desk.outcomes.accepted(desk.number)
    assert desk.counts == {"shown": 1, "accepted": 1}
    reformatted = Desk("x = |", "foo( )")
    reformatted.insert("foo()")
    reformatted.outcomes.accepted(reformatted.number)
    reformatted.outcomes.accepted(reformatted.number)
    reformatted.outcomes.accepted(99)
    assert reformatted.counts == {"shown": 1, "accepted": 1}
    unseen = Desk("x = |", "foo()")
    unseen.outcomes.accepted(unseen.number)
    assert unseen.counts == {"shown": 1, "accepted": 1}


def test_a_suggestion_in_a_document_that_is_closed_was_not_accepted():
    desk = Desk("x = |", "foo()")
    desk.outcomes.closed("u")
    desk.outcomes.closed("u")
    assert desk.counts == {"shown": 1, "rejected": 1}
