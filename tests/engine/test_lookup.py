"""The lookup finds the longest earlier occurrence of the text's end, and counts what followed it."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.lookup import MAX_MATCH, Lookup

texts = st.one_of(
    st.lists(st.integers(0, 2), max_size=60),
    st.lists(st.integers(0, 30), max_size=120),
    st.lists(st.integers(0, 3), min_size=1, max_size=25).map(lambda block: block * 3 + [0, 1]),
)


def naive_candidates(committed: list[int], hypothetical: list[int], k: int) -> list[tuple[int, int, int]]:
    """The definition: for each suffix, longest first, every place in the committed text that it ends at."""
    text = committed + hypothetical
    found: list[tuple[int, int, int]] = []
    for length in range(min(MAX_MATCH, len(text)), 0, -1):
        suffix = text[len(text) - length :]
        followers = [
            committed[i + length]
            for i in range(len(committed) - length)
            if committed[i : i + length] == suffix
        ]
        newest_first = list(reversed(dict.fromkeys(followers)))
        counts = Counter(followers)
        for token in sorted(newest_first, key=lambda t: -counts[t]):
            if token not in {t for t, _, _ in found}:
                found.append((token, counts[token], length))
    return found[:k]


@given(texts, texts, st.integers(1, 6))
def test_candidates_are_those_of_the_definition_also_after_tokens_that_are_not_committed(text, path, k):
    lookup = Lookup(text)
    state = lookup.state
    for depth in range(len(path) + 1):
        assert lookup.candidates(state, k) == naive_candidates(text, path[:depth], k)
        if depth < len(path):
            state = lookup.after(state, path[depth])


@given(texts, texts)
def test_committing_in_pieces_equals_committing_at_once_and_trying_changes_nothing(text, rest):
    pieces, whole = Lookup(text), Lookup(text + rest)
    for token in rest:
        tried = pieces.after(pieces.state, token)
        pieces.candidates(tried, 4)
        pieces.extend([token])
    assert len(pieces) == len(whole)
    assert pieces.candidates(pieces.state, 100) == whole.candidates(whole.state, 100)


def test_a_branch_of_a_tree_is_matched_from_its_own_path():
    lookup = Lookup([1, 2, 3, 9, 1, 2, 4, 8, 1, 2])
    state = lookup.state
    assert lookup.candidates(state, 2) == [(4, 1, 2), (3, 1, 2)]
    assert lookup.candidates(lookup.after(state, 3), 1) == [(9, 1, 3)]
    assert lookup.candidates(lookup.after(state, 4), 1) == [(8, 1, 3)]
    assert lookup.candidates(lookup.after(state, 7), 1) == []


def test_the_longest_match_comes_before_a_more_frequent_shorter_one():
    lookup = Lookup([5, 1, 7] + [1, 2] * 3 + [5, 1])
    assert lookup.candidates(lookup.state, 3) == [(7, 1, 2), (2, 3, 1)]


def test_a_text_without_repetition_has_no_candidates():
    lookup = Lookup(range(100))
    assert lookup.candidates(lookup.state, 4) == []
    assert Lookup().candidates(Lookup().state, 4) == []


def test_the_work_per_token_is_bounded_on_the_most_repetitive_text():
    lookup = Lookup([0] * 5000)
    assert len(lookup.state) == MAX_MATCH + 1
    assert lookup.candidates(lookup.state, 1) == [(0, 5000 - MAX_MATCH, MAX_MATCH)]
