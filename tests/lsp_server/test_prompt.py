"""Prompts: the family's own form, the right ends kept, and little changed by a keystroke."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from lsp_server.documents import Cursor, split_lines
from lsp_server.prompt import FAMILIES, PromptFormat, window_top
from tests.lsp_server.scripted_engine import SPECIAL, ByteTokenizer

PREFIX, SUFFIX, MIDDLE = 257, 258, 259


def prompt(text, cursor, room=2000, special=SPECIAL):
    return PromptFormat(ByteTokenizer(special), "model").build(split_lines(text), cursor, room).ids


def test_prefix_and_suffix_meet_at_the_cursor():
    assert prompt("a = (b)\nc", Cursor(0, 5)) == [PREFIX, *b"a = (", SUFFIX, *b"b)\nc", MIDDLE]


def test_guesses_go_by_the_suffix_and_then_the_prefix():
    built = PromptFormat(ByteTokenizer(), "model").build(["a = (b)\n", "c"], Cursor(0, 5), 2000)
    assert built.context == [*b"b)\nc", PREFIX, *b"a = ("]


def test_line_ends_make_no_difference():
    assert prompt("a\r\nb\rc", Cursor(1, 1)) == prompt("a\nb\nc", Cursor(1, 1))


def test_the_user_s_text_cannot_contain_control_tokens():
    ids = prompt("<|fim_middle|>", Cursor(0, 14))
    assert ids.count(MIDDLE) == 1


def test_half_a_surrogate_pair_is_no_obstacle():
    assert prompt("x\ud83d", Cursor(0, 2)) == [PREFIX, *b"x?", SUFFIX, MIDDLE]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_known_by_its_own_tokens(family):
    names = [*family.start, family.prefix, family.suffix, family.middle, *family.also]
    special = {name: 300 + i for i, name in enumerate(names)}
    ids = prompt("ab", Cursor(0, 1), special=special)
    start = [special[name] for name in family.start]
    assert ids == [
        *start, special[family.prefix], ord("a"), special[family.suffix], ord("b"), special[family.middle]
    ]  # fmt: skip


def test_a_model_without_such_tokens_continues_the_prefix():
    assert prompt("ab", Cursor(0, 1), special={"<|endoftext|>": 256}) == [256, ord("a")]


def test_an_unknown_form_is_refused_in_one_sentence():
    with pytest.raises(DraftlineError, match="tokens that draftline does not know"):
        PromptFormat(ByteTokenizer({"[FIM_PREFIX]": 300, "[FIM_MIDDLE]": 301}), "model")


def test_every_control_token_ends_a_suggestion():
    assert set(PromptFormat(ByteTokenizer(), "model").stop_ids) == set(SPECIAL.values())


@given(
    text=st.text(st.sampled_from("ab \n漢"), max_size=400),
    room=st.integers(16, 200),
    where=st.floats(0, 1),
)
def test_a_prompt_fits_its_room_and_keeps_what_is_next_to_the_cursor(text, room, where):
    lines = split_lines(text)
    line = int(where * (len(lines) - 1))
    cursor = Cursor(line, len(lines[line].rstrip("\n")) // 2)
    ids = prompt(text, cursor, room)
    assert len(ids) <= room
    before = "".join(lines[:line]) + lines[line][: cursor.character]
    after = lines[line][cursor.character :] + "".join(lines[line + 1 :])
    at = ids.index(SUFFIX)
    assert before.encode().endswith(bytes(ids[1:at]))
    assert after.encode().startswith(bytes(ids[at + 1 : -1]))


def test_the_window_s_top_stays_put_while_lines_are_typed():
    lines = [f"line {n}\n" for n in range(1000)]
    tops = {window_top(lines, Cursor(line, 0), 2000).line for line in range(500, 520)}
    assert len(tops) <= 2
    assert all(top % 32 == 0 for top in tops)


def test_the_window_s_top_stays_put_in_a_long_line():
    lines = ["x" * 100_000]
    assert (
        len({window_top(lines, Cursor(0, column), 2000).character for column in range(50_000, 50_200)}) <= 2
    )
