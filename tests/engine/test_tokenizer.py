"""Text is text and control is control, whatever the vendor's file says."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from engine.errors import DraftlineError
from engine.tokenizer import Tokenizer
from tests.engine.tiny_models import SPECIAL, write_sentencepiece, write_tokenizer


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


@pytest.fixture(params=[True, False], ids=["normalizer", "metaspace"])
def sentencepiece(request, tmp_path):
    path = tmp_path / "tokenizer.json"
    write_sentencepiece(path, ["▁<PRE>"], by_normalizer=request.param)
    return Tokenizer(path)


@pytest.mark.parametrize("text", ["x", " x", "  x", "\nab", "a b é", "<PRE>", " <PRE>"])
def test_a_text_is_given_back_as_it_was_though_the_vendor_puts_a_space_before_it(sentencepiece, text):
    assert sentencepiece.opening == " "
    ids = sentencepiece.encode(text)
    assert sentencepiece.decode(ids) == text
    assert sentencepiece.special["▁<PRE>"] not in ids


def test_the_opening_written_out_is_the_vendor_s_own_cut(sentencepiece):
    assert len(sentencepiece.encode(sentencepiece.opening + "x")) == 1


def test_nothing_is_put_before_a_text_by_others(tokenizer):
    assert tokenizer.opening == ""


def test_the_bytes_of_tokens_are_what_they_decode_to(sentencepiece, tmp_path):
    write_tokenizer(tmp_path / "bytes.json")
    for tokenizer in (sentencepiece, Tokenizer(tmp_path / "bytes.json")):
        texts = tokenizer.token_bytes()
        assert not {*SPECIAL, "▁<PRE>"} & {text.decode("utf-8", "replace") for text in texts.values()}
        assert {bytes([byte]) for byte in range(256)} <= set(texts.values())
        ids = tokenizer.encode(" x é\n\t漢")
        assert b"".join(texts[token] for token in ids) == " x é\n\t漢".encode()


def test_added_tokens_stand_for_themselves(tokenizer):
    texts = tokenizer.token_bytes()
    assert b"<tool>" in texts.values()
    assert not set(tokenizer.special.values()) & texts.keys()
