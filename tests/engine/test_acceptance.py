"""The walk follows the oracle's own choices, whatever was guessed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.acceptance import walk
from engine.tree import ROOT, TokenTree

trees_and_choices = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 2)), max_size=30).flatmap(
    lambda steps: st.tuples(
        st.just(steps), st.lists(st.integers(0, 3), min_size=len(steps) + 1, max_size=len(steps) + 1)
    )
)


def grow(steps) -> TokenTree:
    tree = TokenTree(9)
    for parent, token in steps:
        tree.add(parent % len(tree), token, 0.5, "draft2")
    return tree


def take(tree: TokenTree, choices) -> tuple[list[int], int]:
    """The accepted nodes and the bonus token, all nodes checked."""
    accepted, tokens = walk(tree, range(len(tree)), lambda node: (choices[node], True))
    assert tokens[:-1] == [tree.tokens[node] for node in accepted[1:]]
    return accepted, tokens[-1]


@given(trees_and_choices)
def test_every_token_is_the_oracles_choice_after_the_one_before(case):
    steps, choices = case
    tree = grow(steps)
    accepted, bonus = take(tree, choices)
    emitted = [*(tree.tokens[node] for node in accepted[1:]), bonus]
    assert accepted[0] == ROOT
    assert emitted == [choices[node] for node in accepted]
    assert all(tree.parents[child] == parent for parent, child in pairwise(accepted))


@given(trees_and_choices)
def test_the_walk_stops_only_where_the_choice_was_not_guessed(case):
    steps, choices = case
    tree = grow(steps)
    accepted, bonus = take(tree, choices)
    guesses_after_the_end = {tree.tokens[n] for n in range(len(tree)) if tree.parents[n] == accepted[-1]}
    assert bonus not in guesses_after_the_end


def test_without_guesses_the_choice_is_the_bonus():
    assert take(TokenTree(9), [4]) == ([ROOT], 4)


def test_when_all_guesses_are_right_there_is_a_bonus_token_still():
    tree = TokenTree(9)
    node = ROOT
    for token in (4, 5, 6):
        node = tree.add(node, token, 0.5, "draft")
    assert take(tree, [4, 5, 6, 7]) == ([0, 1, 2, 3], 7)


def test_a_right_guess_under_a_wrong_one_is_not_taken():
    tree = TokenTree(9)
    wrong = tree.add(ROOT, 1, 0.5, "draft")
    tree.add(wrong, 4, 0.5, "draft")
    assert take(tree, [4, 4, 4]) == ([ROOT], 4)


def test_of_siblings_the_one_is_taken_that_the_oracle_chose():
    tree = TokenTree(9)
    for token in (1, 2, 3):
        tree.add(ROOT, token, 0.5, "draft")
    assert take(tree, [2, 8, 7, 6]) == ([ROOT, 2], 7)


def test_a_guess_that_was_not_checked_is_not_taken():
    tree = TokenTree(9)
    tree.add(tree.add(ROOT, 4, 0.5, "draft"), 5, 0.5, "draft")
    assert walk(tree, [ROOT, 1], lambda node: ([4, 5][node], True)) == ([ROOT, 1], [4, 5])


def test_where_the_rule_refuses_the_walk_ends_even_if_its_token_was_guessed():
    tree = TokenTree(9)
    tree.add(ROOT, 4, 0.5, "draft")
    assert walk(tree, [ROOT, 1], lambda node: (4, False)) == ([ROOT], [4])
