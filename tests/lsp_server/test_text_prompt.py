"""Prompts as text, for models whose tokenizer is not at hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from lsp_server.documents import Cursor, split_lines
from lsp_server.prompt import PromptFormat
from lsp_server.prompt_head import NOWHERE, Snippet, Surroundings
from lsp_server.text_prompt import SERVED, TextPieces, served_family

AROUND = Surroundings("shop", "a.py", (Snippet("b.py", "y = 2\n"),))


def spelled(model, text, cursor=None, around=NOWHERE, room=2000):
    pieces = TextPieces(served_family(model))
    lines = split_lines(text)
    cursor = cursor or Cursor(len(lines) - 1, len(lines[-1]))
    return pieces.spell(PromptFormat(pieces, model).build(lines, cursor, room, around).ids)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_pieces_are_the_text(text):
    pieces = TextPieces(SERVED[0])
    ids = pieces.encode(text)
    assert pieces.decode(ids) == text
    assert all(number > 0 for number in ids)


@pytest.mark.parametrize(
    ("model", "prompt"),
    [
        (
            "Qwen/Qwen2.5-Coder-7B",
            "<|repo_name|>shop\n<|file_sep|>b.py\ny = 2\n<|file_sep|>a.py\n"
            "<|fim_prefix|>x = 1<|fim_suffix|>\nz<|fim_middle|>",
        ),
        (
            "bigcode/starcoder2-15b",
            "<repo_name>shop<file_sep>b.py\ny = 2\n<file_sep>"
            "<fim_prefix>a.py\nx = 1<fim_suffix>\nz<fim_middle>",
        ),
        ("bigcode/starcoderbase", "<fim_prefix># b.py\n# y = 2\n\nx = 1<fim_suffix>\nz<fim_middle>"),
        (
            "ibm-granite/granite-8b-code-base",
            "<fim_prefix># b.py\n# y = 2\n\nx = 1<fim_suffix>\nz<fim_middle>",
        ),
        (
            "deepseek-ai/deepseek-coder-6.7b-base",
            "<｜fim▁begin｜># b.py\n# y = 2\n\nx = 1<｜fim▁hole｜>\nz<｜fim▁end｜>",
        ),
        (
            "google/codegemma-7b",
            "b.py\ny = 2\n<|file_separator|>a.py\n<|fim_prefix|>x = 1<|fim_suffix|>\nz<|fim_middle|>",
        ),
        ("codellama/CodeLlama-7b-hf", "▁<PRE># b.py\n# y = 2\n\nx = 1▁<SUF>\nz▁<MID>"),
    ],
)
def test_each_family_is_asked_in_its_form_and_its_server_opens_the_text(model, prompt):
    assert spelled(model, "x = 1\nz", Cursor(0, 5), AROUND) == prompt


@pytest.mark.parametrize(
    ("model", "text", "sent"),
    [
        ("Qwen2.5-Coder-7B", "a = '<|fim_middle|>1", "a = '< |fim_middle|>1"),
        ("Qwen2.5-Coder-7B", "a = '<|im_end|>1", "a = '< |im_end|>1"),
        ("Qwen2.5-Coder-7B", "</tool_call>1", "< /tool_call>1"),
        ("Qwen2.5-Coder-7B", "f <| g |> 1 <s>1", "f <| g |> 1 <s>1"),
        ("starcoder2-3b", "<fim_suffix><file_sep>1", "< fim_suffix>< file_sep>1"),
        ("deepseek-coder-1.3b", "<｜end▁of▁sentence｜>1", "< ｜end▁of▁sentence｜>1"),
        ("codellama-7b", "</s>▁<PRE>1", "< /s>▁< PRE>1"),
        ("codegemma-2b", "<bos><mask>1", "< bos>< mask>1"),
    ],
)
def test_the_user_s_text_stays_text(model, text, sent):
    prompt = spelled(model, text)
    marks = TextPieces(served_family(model)).special
    for mark in sorted(marks, key=len, reverse=True):
        assert prompt.count(mark) <= 1
        prompt = prompt.replace(mark, "")
    assert prompt == sent


FRAGMENTS = st.lists(st.sampled_from(["<", "<|", "fim", "_", "prefix", "suffix", "middle", "|>", ">", "\n"]))


@given(FRAGMENTS.map("".join), FRAGMENTS.map("".join))
def test_no_text_makes_a_mark(before, after):
    lines = split_lines(before + after)
    cursor = Cursor(len(split_lines(before)) - 1, len(split_lines(before)[-1]))
    pieces = TextPieces(SERVED[0])
    prompt = pieces.spell(PromptFormat(pieces, "m").build(lines, cursor, 2000).ids)
    for mark in ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"):
        assert prompt.count(mark) == 1


def test_a_prompt_keeps_to_its_room():
    prompt = spelled("qwen2.5-coder", "word " * 5000, room=100)
    assert len(TextPieces(SERVED[0]).encode(prompt)) <= 100 + 40  # its marks are several pieces here
    assert prompt.count("word") > 20


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2.5-coder"),
        ("qwen2_5-coder-0.5b-q4_k_m.gguf", "qwen2.5-coder"),
        ("bigcode/starcoder2-3b", "starcoder2"),
        ("bigcode/starcoderbase-1b", "starcoder"),
        ("/models/CodeLlama-13b-hf", "codellama"),
    ],
)
def test_a_model_s_name_tells_its_family(model, family):
    assert served_family(model).name == family


def test_a_family_can_be_named_where_the_model_s_name_is_the_team_s_own():
    assert served_family("our-coder", "deepseek-coder").name == "deepseek-coder"


@pytest.mark.parametrize(
    ("model", "named", "words"),
    [("Codestral-22B", None, "Codestral-22B"), ("Qwen2.5-Coder-7B", "codestral", "codestral")],
)
def test_an_unknown_family_is_refused_by_name(model, named, words):
    with pytest.raises(DraftlineError, match=words) as caught:
        served_family(model, named)
    assert "starcoder2" in str(caught.value)
