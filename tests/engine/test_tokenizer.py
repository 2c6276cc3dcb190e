"""Text is text and control is control, whatever the vendor's file says."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from engine.errors import DraftlineError
from engine.tokenizer import Tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    """One token for each character, and three added ones: a special one, one that should be, a word."""
    characters = "<|>abcdefghijklmnopqrstuvwxyz_"
    inner = tokenizers.Tokenizer(models.WordLevel({c: i for i, c in enumerate(characters)}, unk_token="_"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    inner.add_special_tokens(["<|endoftext|>"])
    inner.add_tokens(["<|fim_prefix|>", "<tool>"])
    path = tmp_path / "tokenizer.json"
    inner.save(str(path))
    return Tokenizer(path)


def test_control_tokens_are_special_even_if_they_are_not_marked_so(tokenizer):
    assert set(tokenizer.special) == {"<|endoftext|>", "<|fim_prefix|>"}


@pytest.mark.parametrize("name", ["<|endoftext|>", "<|fim_prefix|>"])
def test_a_control_token_s_name_in_a_text_is_text(tokenizer, name):
    ids = tokenizer.encode(name)
    assert tokenizer.special[name] not in ids
    assert len(ids) == len(name)


def test_control_tokens_leave_no_text(tokenizer):
    assert tokenizer.decode([*tokenizer.special.values(), *tokenizer.encode("a")]) == "a"


def test_other_added_tokens_are_part_of_the_text(tokenizer):
    (word,) = tokenizer.encode("<tool>")
    assert tokenizer.decode([word]) == "<tool>"


def test_a_file_that_is_no_tokenizer_is_told_in_one_sentence(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DraftlineError, match="fetch the model again"):
        Tokenizer(tmp_path / "tokenizer.json")
