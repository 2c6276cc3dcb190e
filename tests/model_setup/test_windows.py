"""The pieces of a repository that a draft is trained on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_setup.windows import SHORTEST, cut_windows

FIM = {"<|fim_prefix|>": 1000, "<|fim_suffix|>": 1001, "<|fim_middle|>": 1002}
PLAIN = {"<|endoftext|>": 1003}


@given(
    st.lists(st.integers(0, 400), max_size=6),
    st.sampled_from([FIM, PLAIN, {}]),
    st.integers(SHORTEST + 4, 128),
)
def test_each_window_is_a_piece_of_a_document_in_one_of_the_two_forms(lengths, special, length):
    documents = [list(range(size)) for size in lengths]
    windows = cut_windows(documents, special, length)
    for window in windows:
        ids = list(window.ids)
        assert SHORTEST <= len(ids) <= length
        assert 0 <= window.judged < len(ids)
        if 1000 in ids:
            suffix, middle = ids.index(1001), ids.index(1002)
            assert window.judged == middle  # what comes behind the mark is the first that is judged
            text = ids[1:suffix] + ids[middle + 1 :] + ids[suffix + 1 : middle]
            assert middle + 1 < len(ids)
        else:
            text = [token for token in ids if token < 1000]
        assert text == list(range(text[0], text[0] + len(text)))
    read = sum(len([token for token in window.ids if token < 1000]) for window in windows)
    assert read <= sum(lengths)
    assert read >= sum(lengths) - SHORTEST * len(lengths)


def test_a_model_that_cannot_fill_in_the_middle_reads_plain_text_with_its_opening():
    (window,) = cut_windows([list(range(40))], PLAIN, 64)
    assert window.ids == (1003, *range(40))


def test_most_windows_are_prompts_for_the_middle_where_the_model_can():
    windows = cut_windows([list(range(start, start + 300)) for start in range(50)], FIM, 64)
    share = sum(1000 in window.ids for window in windows) / len(windows)
    assert 0.6 < share < 0.9


def test_an_edit_elsewhere_leaves_the_windows_of_a_document():
    first, second = list(range(500)), list(range(500, 900))
    before = set(cut_windows([first, second], FIM, 64))
    after = set(cut_windows([[7, *first], second], FIM, 64))
    own = set(cut_windows([second], FIM, 64))
    assert own <= before & after


@pytest.mark.parametrize("documents", [[], [[]], [list(range(SHORTEST - 1))]])
def test_what_is_too_short_gives_none(documents):
    assert cut_windows(documents, FIM) == []
