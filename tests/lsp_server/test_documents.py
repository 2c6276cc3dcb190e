"""Text stays in step with the editor's, in every encoding and with every line end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.documents import (
    Cursor,
    Document,
    Encoding,
    characters_before,
    split_lines,
    text_from,
    units_before,
)

ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}

characters = st.sampled_from([*"a éя漢😀\t\f\v\x1c\x85\u2028\u2029"])
texts = st.lists(characters | st.sampled_from(["\n", "\r\n", "\r"]), max_size=30).map("".join)
positions = st.tuples(st.integers(0, 9), st.integers(0, 12))
edits = st.lists(st.tuples(positions, positions, texts), max_size=12)


class Reference:
    """The document as one string, its positions found by reading it from the beginning."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self.codec, self.unit = CODECS[encoding]

    def offset(self, line: int, column: int) -> int:
        at = 0
        for _ in range(line):
            while at < len(self.text) and self.text[at] not in "\r\n":
                at += 1
            if at == len(self.text):
                return at
            at += 2 if self.text[at : at + 2] == "\r\n" else 1
        units = 0
        while at < len(self.text) and self.text[at] not in "\r\n":
            units += len(self.text[at].encode(self.codec)) // self.unit
            if units > column:
                break
            at += 1
        return at

    def edit(self, start: tuple[int, int], end: tuple[int, int], text: str) -> None:
        first, last = sorted((self.offset(*start), self.offset(*end)))
        self.text = self.text[:first] + text + self.text[last:]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=texts, changes=edits)
def test_any_run_of_edits_gives_the_text_that_the_editor_has(encoding, text, changes):
    document, reference = Document(text, 0, encoding), Reference(text, encoding)
    for start, end, new in changes:
        document.edit(start, end, new)
        reference.edit(start, end, new)
        assert document.text == reference.text
        assert document.lines == split_lines(reference.text)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(text=texts, position=positions)
def test_a_position_is_clamped_to_its_line_and_to_the_text(encoding, text, position):
    document = Document(text, 0, encoding)
    cursor = document.cursor(*position)
    offset = sum(len(line) for line in document.lines[: cursor.line]) + cursor.character
    assert offset == Reference(text, encoding).offset(*position)


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(line=st.text(characters | st.characters(exclude_categories=["Cs"]), max_size=20), data=st.data())
def test_columns_and_characters_are_each_other_s_inverse(encoding, line, data):
    index = data.draw(st.integers(0, len(line)))
    codec, unit = CODECS[encoding]
    units = units_before(line, index, encoding)
    assert units == len(line[:index].encode(codec)) // unit
    assert characters_before(line, units, encoding) == index


@pytest.mark.parametrize(
    ("encoding", "column", "index"), [("utf-8", 3, 1), ("utf-16", 2, 1), ("utf-8", 5, 2), ("utf-16", 3, 2)]
)
def test_a_column_inside_an_emoji_is_its_beginning_and_behind_it_its_end(encoding, column, index):
    assert characters_before("a😀b", column, encoding) == index


@pytest.mark.parametrize("separator", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_only_the_protocol_s_line_ends_end_a_line(separator):
    assert split_lines(f"a{separator}b\nc") == [f"a{separator}b\n", "c"]


def test_a_line_feed_typed_after_a_lone_carriage_return_joins_it():
    document = Document("a\rb")
    assert document.edit((1, 0), (1, 0), "\n") == Cursor(1, 0)
    assert document.lines == ["a\r\n", "b"]


@given(st.lists(texts, min_size=1), st.data())
def test_the_text_from_a_place_on_is_bounded(parts, data):
    lines = split_lines("".join(parts))
    line = data.draw(st.integers(0, len(lines) - 1))
    character = data.draw(st.integers(0, len(lines[line])))
    size = data.draw(st.integers(0, 20))
    rest = lines[line][character:] + "".join(lines[line + 1 :])
    assert text_from(lines, Cursor(line, character), size) == rest[:size]


def test_the_end_of_a_last_line_without_line_end_is_after_its_last_character():
    assert Document("ab\ncd").cursor(1, 99) == Cursor(1, 2)


def test_a_position_below_the_last_line_is_the_end_of_the_text():
    assert Document("ab\ncd").cursor(7, 0) == Cursor(1, 2)


def test_half_a_surrogate_pair_from_a_client_is_text_like_any_other():
    document = Document("x = '\ud83d'", 0, "utf-8")
    document.edit((0, 8), (0, 8), "!")
    assert document.text == "x = '\ud83d!'"


def test_a_snapshot_is_untouched_by_later_edits():
    document = Document("a\nb")
    before = document.snapshot()
    document.edit((0, 0), (1, 1), "")
    assert before == ("a\n", "b")
    assert document.text == ""
