"""How servers are told how a text has to begin."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.constraints import beginning_with

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs", "Cc"]), min_size=1)


@given(typed=LINE, rest=st.text())
def test_vllm_gets_a_pattern_of_what_begins_so(typed, rest):
    pattern = beginning_with(typed, "vllm")["structured_outputs"]["regex"]
    assert re.fullmatch(pattern, typed + rest)
    assert not re.fullmatch(pattern, rest) or rest.startswith(typed)


@pytest.mark.parametrize("owner", ["llamacpp", "me"])
def test_llama_cpp_gets_a_grammar(owner):
    assert beginning_with('\t"é\\', owner) == {"grammar": r'root ::= "\t\"é\\" [^\x00]*'}


def test_of_others_nothing_is_known():
    assert beginning_with("x", "openai") == {}
