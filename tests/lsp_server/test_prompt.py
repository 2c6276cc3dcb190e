"""Prompts: the family's own form, the right ends kept, and little changed by a keystroke."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from engine.fill_in_the_middle import FAMILIES
from engine.tokenizer import Tokenizer
from lsp_server.documents import Cursor, split_lines
from lsp_server.prompt import PromptFormat, window_top
from lsp_server.prompt_budget import CONTEXT_TOKENS, Budget
from lsp_server.prompt_head import Surroundings
from tests.engine.tiny_models import write_sentencepiece, write_tokenizer
from tests.lsp_server.scripted_engine import SPECIAL, ByteTokenizer

PREFIX, SUFFIX, MIDDLE = 257, 258, 259


def prompt(text, cursor, room=2000, special=SPECIAL):
    return PromptFormat(ByteTokenizer(special), "model").build(split_lines(text), cursor, room).ids


def test_the_parts_of_a_budget():
    assert Budget.of(CONTEXT_TOKENS) == Budget()
    assert Budget.of(100) == Budget(60, 20, 20)
    assert Budget.of(64).prefix > 0


def test_a_smaller_budget_reads_less_of_the_text():
    text = "abcdefg\n" * 500
    around = Surroundings(budget=Budget.of(100))
    ids = PromptFormat(ByteTokenizer(), "model").build(split_lines(text), Cursor(250, 0), 4000, around).ids
    assert len(ids) <= 100 + 4 + len("untitled\n")


def test_prefix_and_suffix_meet_at_the_cursor():
    assert prompt("a = 1(b)\nc", Cursor(0, 5)) == [PREFIX, *b"a = 1", SUFFIX, *b"(b)\nc", MIDDLE]


def test_guesses_go_by_the_suffix_and_then_the_prefix():
    built = PromptFormat(ByteTokenizer(), "model").build(["a = 1(b)\n", "c"], Cursor(0, 5), 2000)
    assert built.context == [*b"(b)\nc", PREFIX, *b"a = 1"]


def test_line_ends_make_no_difference():
    assert prompt("a\r\nb\rc", Cursor(1, 1)) == prompt("a\nb\nc", Cursor(1, 1))


def test_the_user_s_text_cannot_contain_control_tokens():
    ids = prompt("<|fim_middle|>", Cursor(0, 14))
    assert ids.count(MIDDLE) == 1


def test_half_a_surrogate_pair_is_no_obstacle():
    assert prompt("x\ud83d1", Cursor(0, 3)) == [PREFIX, *b"x?1", SUFFIX, MIDDLE]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_known_by_its_own_tokens(family):
    names = [*family.start, family.prefix, family.suffix, family.middle, *family.also]
    special = {name: 300 + i for i, name in enumerate(names)}
    ids = prompt("1b", Cursor(0, 1), special=special)
    start = [special[name] for name in family.start]
    assert ids == [
        *start, special[family.prefix], ord("1"), special[family.suffix], ord("b"), special[family.middle]
    ]  # fmt: skip


def test_code_llama_has_a_space_before_the_prefix_but_none_before_the_suffix(tmp_path):
    """As in Meta's own llama/generation.py, infilling_prompt_tokens."""
    path = tmp_path / "tokenizer.json"
    write_sentencepiece(path, ["<s>", "▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"])
    described = json.loads(path.read_text(encoding="utf-8"))
    for added in described["added_tokens"]:
        added["special"] = added["content"] == "<s>"
    path.write_text(json.dumps(described), encoding="utf-8")
    tokenizer = Tokenizer(path)
    built = PromptFormat(tokenizer, "model").build(["x1x\n", "b"], Cursor(0, 2), 2000)
    piece = tokenizer.token_bytes()
    names = {token: name for name, token in tokenizer.special.items()}
    written = [names.get(token) or piece[token].decode() for token in built.ids]
    assert written == ["<s>", "▁<PRE>", " x", "1", "▁<SUF>", "x", "\n", "b", "▁<MID>"]
    assert tokenizer.special["▁<EOT>"] in PromptFormat(tokenizer, "model").stop_ids


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_control_tokens_of_no_family_can_come_from_the_user_s_text(family, marked, tmp_path):
    """Though some vendors list them as ordinary tokens."""
    control = [family.prefix, family.suffix, family.middle]
    names = [*family.start, *control, *family.also]
    path = tmp_path / "tokenizer.json"
    write_tokenizer(path, names)
    described = json.loads(path.read_text(encoding="utf-8"))
    for added in described["added_tokens"]:
        added["special"] = marked or added["content"] not in control
    path.write_text(json.dumps(described), encoding="utf-8")
    tokenizer = Tokenizer(path)
    text = "".join(f"{name} = '{name}'\n" for name in [*names, "<|fim_middle|>"])
    lines = split_lines(text)
    ids = PromptFormat(tokenizer, "model").build(lines, Cursor(len(names), 0), 4000).ids
    for name in names:
        assert ids.count(tokenizer.special[name]) == (name in [*control, *family.start])
    assert tokenizer.decode(ids) == text


def test_a_model_without_such_tokens_continues_the_prefix():
    assert prompt("1b", Cursor(0, 1), special={"<|endoftext|>": 256}) == [256, ord("1")]


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
    built = PromptFormat(ByteTokenizer(), "model").build(lines, cursor, room)
    ids = built.ids
    assert len(ids) <= room
    before = "".join(lines[:line]) + lines[line][: cursor.character]
    after = lines[line][cursor.character :] + "".join(lines[line + 1 :])
    at, middle = ids.index(SUFFIX), ids.index(MIDDLE)
    shown = bytes(ids[1:at]) + bytes(ids[middle + 1 :])
    assert before.encode().endswith(shown + built.begins_with.encode())
    assert after.encode().startswith(bytes(ids[at + 1 : middle]))


def test_the_lines_typed_last_begin_the_middle():
    """So that typing them leaves the suffix where the engine has read it."""
    text = "".join(f"line {n}\n" for n in range(19))
    built = PromptFormat(ByteTokenizer(), "model").build([*split_lines(text), "x"], Cursor(18, 5), 2000)
    before, _ = text.split("line 16\n")
    at = built.ids.index(MIDDLE)
    assert built.ids[: built.ids.index(SUFFIX)] == [PREFIX, *before.encode()]
    assert bytes(built.ids[at + 1 :]) + built.begins_with.encode() == b"line 16\nline 17\nline "
    assert built.context[-5:] == built.ids[-5:]


def test_little_of_a_prompt_changes_while_lines_are_typed():
    above = [f"line {n}\n" for n in range(40)]
    below = [f"below {n}\n" for n in range(40)]
    written = PromptFormat(ByteTokenizer(), "model")
    typed = ["a = b(1)\n", "c = d\n", "for e in f:\n", "    g(e)\n"]
    prompts = []
    for number, line in enumerate(typed):
        for column in range(len(line)):
            lines = [*above, *typed[:number], line[:column] + "\n", *below]
            prompts.append(written.build(lines, Cursor(40 + number, column), 2000).ids)
    changed = [_changed(one, other) for one, other in itertools.pairwise(prompts)]
    assert max(changed) < 20


def test_only_the_lines_typed_last_are_cut_into_tokens_again():
    class Noting(ByteTokenizer):
        def encode(self, text):
            cut.append(text)
            return super().encode(text)

    cut = []
    form = PromptFormat(Noting(), "model")
    lines = split_lines("a = 1\n" * 300)
    first = form.build(lines, Cursor(200, 0), 2000)
    again = form.build(lines, Cursor(200, 0), 2000)
    assert again == first
    assert first.ids is not again.ids  # whoever changes one does not change the other
    cut.clear()
    lines[200] = "b" + lines[200]
    form.build(lines, Cursor(200, 1), 2000)
    assert cut == ["b"]


def _changed(before: list[int], after: list[int]) -> int:
    """How many tokens are to be read anew."""
    same = next(
        (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b),
        min(len(before), len(after)),
    )
    return len(after) - same


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


# What the model writes anew


class PieceTokenizer(ByteTokenizer):
    """Cuts as Qwen2.5-Coder's tokenizer does, and a longer word once more behind its third letter."""

    def __init__(self):
        super().__init__()
        self._pieces = []

    def encode(self, text):
        cut = re.findall(r"[^\w\n]?[^\W\d_]+|\d| ?[^\s\w]+\n*|\s*\n+|\s+(?!\S)|\s+|_", text)
        pieces = [part for piece in cut for part in re.findall(r"\W?\w{1,3}|[^\w]+", piece)]
        assert "".join(pieces) == text
        self._pieces += pieces
        return [1000 + self._pieces.index(piece) for piece in pieces]

    def decode(self, ids):
        return "".join(self._pieces[i - 1000] for i in ids if i >= 1000)


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("x = retu|", " retu"),  # whose last token alone would be "u"
        ("retu|)", "retu"),
        ("self.fo|", ".fo"),
        ("self.|", "."),
        ("def f():|", "():"),
        ("def f():\n    |", "    "),
        ("\t\t|", "\t\t"),
        ("x = |", " "),
        ("a_b|", "_b"),
        ("x = 12|", ""),
        ("a\n|", ""),
        ("a\n|b", ""),
        ("|", ""),
        ("漢字|", "漢字"),
    ],
)
def test_the_last_word_sign_or_blanks_are_written_anew(text, anew):
    tokenizer = PieceTokenizer()
    before, _, after = text.partition("|")
    lines = split_lines(before + after)
    cursor = Cursor(before.count("\n"), len(before.rpartition("\n")[2]))
    built = PromptFormat(tokenizer, "model").build(lines, cursor, 2000)
    left = built.ids[1 : built.ids.index(SUFFIX)]
    assert built.begins_with == anew
    assert tokenizer.decode(left) + anew == before
    assert built.context[-len(left) :] == left or not left


def test_a_prompt_stays_as_it_is_while_a_word_is_typed():
    prompts = {
        tuple(
            PromptFormat(ByteTokenizer(), "model")
            .build([f"x = {word}\n"], Cursor(0, 4 + len(word)), 2000)
            .ids
        )
        for word in ("r", "re", "ret", "retu")
    }
    assert len(prompts) == 1


@pytest.mark.parametrize(
    ("text", "anew"),
    [("a.b", ".b"), ("a b", " b"), ("a_b", "_b"), ("a().b", "b"), ("__b", "b"), ("a1b", "b")],
)
def test_a_word_belongs_to_the_one_sign_before_it(text, anew):
    built = PromptFormat(ByteTokenizer(), "model").build([text], Cursor(0, len(text)), 2000)
    assert built.begins_with == anew


def test_of_a_long_word_the_last_token_is_written_anew():
    built = PromptFormat(ByteTokenizer(), "model").build(["abcdefgh"], Cursor(0, 8), 2000)
    assert (built.begins_with, built.healed) == ("h", 1)


def test_without_a_beginning_of_text_one_token_is_left():
    built = PromptFormat(ByteTokenizer({}), "model").build(["ab"], Cursor(0, 2), 2000)
    assert (built.ids, built.begins_with) == ([ord("a")], "b")
