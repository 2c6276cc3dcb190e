"""What stands before the text: each vendor's form, whole snippets, never over the budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fill_in_the_middle import FAMILIES
from lsp_server.documents import Cursor
from lsp_server.prompt import PromptFormat
from lsp_server.prompt_budget import HEAD_TOKENS
from lsp_server.prompt_head import HeadFormat, Snippet, Surroundings
from tests.lsp_server.scripted_engine import ByteTokenizer

FIRST, SECOND = Snippet("a.py", "a = 1\n"), Snippet("lib/b.py", "b = 2\n\n")
AROUND = Surroundings("shop", "main.py", (FIRST, SECOND))


def family_tokens(family):
    names = [
        *(*family.start, family.prefix, family.suffix, family.middle),
        *(*family.also, family.repository, family.file),
    ]
    return {name: 300 + i for i, name in enumerate(dict.fromkeys(names)) if name}


def written(special, around=AROUND, room=4000, text="x1 = 1"):
    """The prompt as text, with the cursor after ``x1``; control tokens under their names."""
    ids = PromptFormat(ByteTokenizer(special), "model").build([text], Cursor(0, 2), room, around).ids
    names = {token: name for name, token in special.items()}
    return "".join(names.get(token) or chr(token) for token in ids)


def named(name):
    return next(family for family in FAMILIES if name in family.name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "Qwen",
            "<|repo_name|>shop\n<|file_sep|>a.py\na = 1\n<|file_sep|>lib/b.py\nb = 2\n\n<|file_sep|>main.py\n"
            "<|fim_prefix|>x1<|fim_suffix|> = 1<|fim_middle|>",
        ),
        (
            "StarCoder2",
            "<repo_name>shop<file_sep>a.py\na = 1\n<file_sep>lib/b.py\nb = 2\n\n<file_sep>"
            "<fim_prefix>main.py\nx1<fim_suffix> = 1<fim_middle>",
        ),
        (
            "CodeGemma",
            "<bos>a.py\na = 1\n<|file_separator|>lib/b.py\nb = 2\n\n<|file_separator|>main.py\n"
            "<|fim_prefix|>x1<|fim_suffix|> = 1<|fim_middle|>",
        ),
        (
            "DeepSeek",
            "<｜begin▁of▁sentence｜><｜fim▁begin｜># a.py\n# a = 1\n\n# lib/b.py\n# b = 2\n#\n\n"
            "x1<｜fim▁hole｜> = 1<｜fim▁end｜>",
        ),
    ],
)
def test_the_form_of_each_family(name, expected):
    assert written(family_tokens(named(name))) == expected


def test_without_snippets_the_repository_and_the_path_are_named():
    special = family_tokens(named("Qwen"))
    assert written(special, Surroundings("shop", "main.py")).startswith(
        "<|repo_name|>shop\n<|file_sep|>main.py\n<|fim_prefix|>x1"
    )
    assert written(family_tokens(named("CodeGemma")), Surroundings("shop", "main.py")).startswith(
        "<bos>main.py\n<|fim_prefix|>x1"
    )


def test_an_untitled_text_beside_a_repository():
    head = written(family_tokens(named("Qwen")), Surroundings(snippets=(FIRST,)))
    assert head.startswith("<|file_sep|>a.py\na = 1\n<|file_sep|>untitled\n<|fim_prefix|>x1")


def test_nothing_known_changes_nothing():
    assert written(family_tokens(named("Qwen")), Surroundings()).startswith("<|fim_prefix|>x1")


def test_a_model_without_any_such_tokens_reads_comments_first():
    around = Surroundings("shop", "main.ts", (FIRST,))
    assert written({"<|endoftext|>": 300}, around) == "<|endoftext|>// a.py\n// a = 1\n\nx1"


def test_no_comments_in_a_language_that_has_none_of_one_line():
    around = Surroundings("shop", "main.html", (FIRST,))
    assert written({"<|endoftext|>": 300}, around) == "<|endoftext|>x1"


def test_a_snippet_s_control_tokens_are_text():
    special = family_tokens(named("Qwen"))
    around = Surroundings("shop", "m.py", (Snippet("a.py", "<|fim_middle|>\n"),))
    ids = PromptFormat(ByteTokenizer(special), "model").build(["x"], Cursor(0, 1), 4000, around).ids
    assert ids.count(special["<|fim_middle|>"]) == 1


def test_half_a_surrogate_pair_in_a_snippet_is_no_obstacle():
    assert "a?" in written(
        family_tokens(named("Qwen")), Surroundings("", "m.py", (Snippet("a.py", "a\ud83d"),))
    )


def test_guesses_go_by_the_snippets_too():
    special = family_tokens(named("Qwen"))
    prompt = PromptFormat(ByteTokenizer(special), "model").build(["x1 = 1"], Cursor(0, 2), 4000, AROUND)
    context = bytes(token for token in prompt.context if token < 256)
    assert b"a = 1\n" in context
    assert context.endswith(b" = 1x1")


def test_of_too_many_snippets_the_last_are_kept_whole():
    special = family_tokens(named("Qwen"))
    near = Snippet("near.py", "n" * (HEAD_TOKENS - 60) + "\n")
    text = written(special, Surroundings("r", "m.py", (FIRST, Snippet("far.py", "f" * 90 + "\n"), near)))
    assert "far.py" not in text
    assert "a.py" not in text  # it would fit, but what stands nearer did not
    assert near.text in text


@given(
    st.lists(st.builds(Snippet, st.text("ab/"), st.text("ab\n漢", max_size=60)), max_size=4),
    st.sampled_from([("<r>", "<f>", False), ("<r>", "<f>", True), ("", "<f>", False), ("", "", False)]),
    st.integers(0, 200),
)
def test_a_head_keeps_to_its_budget(snippets, form, budget):
    head_format = HeadFormat({"<r>": 300, "<f>": 301}, ByteTokenizer({}).encode, *form)
    assert len(head_format.write(Surroundings("shop", "main.py", tuple(snippets)), budget)) <= budget
