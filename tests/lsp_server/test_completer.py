"""One request from text to suggestion, with a scripted model."""

from __future__ import annotations

import pytest

from engine.request import CancelToken, SamplingParams
from lsp_server.completer import Completer, place_of
from lsp_server.documents import Cursor, split_lines
from lsp_server.writer import EngineWriter
from tests.lsp_server.scripted_engine import ScriptedEngine


def suggest(written, text="x = ", cursor=None, cancel=None, mode="staged", max_tokens=64, **options):
    engine = ScriptedEngine(lambda prefix, suffix: written, **options)
    lines = split_lines(text)
    cursor = cursor or Cursor(len(lines) - 1, len(lines[-1]))
    completer = Completer(EngineWriter(engine))
    return completer.complete(
        lines, cursor, cancel or CancelToken(), SamplingParams(max_tokens, mode=mode)
    ), engine


def test_the_model_s_text_up_to_its_end_token():
    suggestion, _ = suggest("1 + 2")
    assert suggestion.text == "1 + 2"
    assert "".join(suggestion.tokens) == "1 + 2"


@pytest.mark.parametrize("tokens_per_cycle", [1, 2, 3, 5, 64])
def test_tokens_are_counted_up_to_the_end_however_they_come(tokens_per_cycle):
    suggestion, _ = suggest("\n    b\nc = 1", text="if a:", tokens_per_cycle=tokens_per_cycle)
    assert suggestion.text == "\n    b"
    assert "".join(suggestion.tokens) == "\n    b\nc"
    assert len(suggestion.tokens) == len(suggestion.origins) == 8


def test_plain_and_staged_give_the_same():
    staged, _ = suggest("\n    b\nc = 1", text="if a:")
    plain, _ = suggest("\n    b\nc = 1", text="if a:", mode="plain")
    assert (staged.text, staged.tokens) == (plain.text, plain.tokens)
    assert plain.tokens_per_cycle == 1


def test_generation_ends_with_the_suggestion():
    _, engine = suggest("1\n" * 60, cursor=Cursor(0, 2), text="f()")
    assert engine.emitted < 6


def test_a_character_of_several_tokens_comes_with_its_last():
    suggestion, _ = suggest("'é'", tokens_per_cycle=1)
    assert suggestion.tokens == ["'", "", "é", "'"]


def test_a_character_that_was_cut_off_is_left_out():
    suggestion, _ = suggest("aé", max_tokens=2)
    assert suggestion.text == "a"


def test_at_most_so_many_tokens():
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    suggestion, _ = suggest(alphabet * 3)
    assert suggestion.text == (alphabet * 3)[:64]


def test_line_ends_are_the_document_s():
    suggestion, _ = suggest("\n    b", text="z\r\nif a:")
    assert suggestion.text == "\r\n    b"


def test_a_carriage_return_of_the_model_s_does_not_get_through():
    suggestion, _ = suggest("\r\n    b\r\n    c", text="if a:")
    assert suggestion.text == "\n    b\n    c"


def test_a_cancelled_request_asks_for_nothing():
    cancel = CancelToken()
    cancel.cancel()
    suggestion, engine = suggest("abc", cancel=cancel)
    assert (suggestion.text, engine.emitted) == ("", 0)


def test_a_small_context_is_not_overrun():
    suggestion, engine = suggest("b" * 100, text="a" * 1000, max_context=64)
    assert len(engine.prompts[0]) + len(suggestion.tokens) <= 64


@pytest.mark.parametrize("right", ["", ")", " z"])
def test_a_line_of_megabytes_is_judged_by_what_is_near_the_cursor(right):
    left, rest = "    f(a)[0];" * 1000, "g(b)[1];" * 1000
    line = f"{left}h({right}{rest}\nbelow\n"
    place = place_of(split_lines(line), Cursor(0, len(left) + 2))
    assert place.left.startswith("    ")
    assert place.left.endswith("h(")
    assert place.right.startswith(right)
    assert len(place.left) + len(place.right) < 5000
    suggestion, _ = suggest("c)", text=line, cursor=Cursor(0, len(left) + 2))
    assert suggestion.text == ("c" if right == ")" else "c)")


@pytest.mark.parametrize(
    ("left", "written", "inserted"),
    [
        ("    ", "def g(self):\n        pass\n    ", ""),
        ("", "import a\n", ""),
        ("    ", "@cached ", "@cached "),
        ("    await ", "g() + \n", "g() + "),
    ],
)
def test_a_line_of_its_own_is_not_put_before_the_text_of_another(left, written, inserted):
    suggestion, _ = suggest(written, text=f"{left}f()\n", cursor=Cursor(0, len(left)))
    assert suggestion.text == inserted


@pytest.mark.parametrize("tokens_per_cycle", [1, 3, 64])
def test_what_was_typed_is_no_part_of_the_suggestion(tokens_per_cycle):
    suggestion, engine = suggest("rn x", text="    retu", tokens_per_cycle=tokens_per_cycle)
    assert engine.parts(engine.prompts[0])[0] == "   "  # the fourth goes with the word
    assert suggestion.text == "rn x"
    assert "".join(suggestion.tokens) == "rn x"
    assert len(suggestion.tokens) == len(suggestion.origins) == 4


def test_a_model_that_cannot_write_what_was_typed_suggests_nothing():
    class Stubborn(ScriptedEngine):
        def generate(self, *args, begins_with="", **options):
            return super().generate(*args, **options)

    lines = split_lines("retu")
    completer = Completer(EngineWriter(Stubborn(lambda prefix, suffix: "x")))
    suggestion = completer.complete(lines, Cursor(0, 4), CancelToken())
    assert (suggestion.text, suggestion.tokens) == ("", [])


def test_a_suggestion_is_indented_as_the_file_is():
    suggestion, _ = suggest("\n        b\n        if c:\n            d", text="\tx\n\tif a:")
    assert suggestion.text == "\n\t\tb\n\t\tif c:\n\t\t\td"
    assert "".join(suggestion.tokens) == suggestion.text


def test_a_bracket_of_the_line_below_is_not_closed_twice():
    suggestion, _ = suggest("1, 2]", text="x = [\n    \n]\n", cursor=Cursor(1, 4))
    assert suggestion.text == "1, 2"


def test_no_second_body_is_suggested():
    suggestion, _ = suggest("\n    2\n)", text="x = (\n    1\n)\n", cursor=Cursor(0, 5))
    assert suggestion.text == ""
