"""The tree keeps parents before children and each guess once under its parent."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tree import ROOT, TokenTree

# Each step adds a token below one of the nodes that are there by then; few tokens, so that many coincide.
additions = st.lists(
    st.tuples(
        st.integers(0, 1000), st.integers(0, 3), st.floats(0.01, 1.0), st.sampled_from(["draft", "draft2"])
    ),
    max_size=40,
)


def grow(steps) -> TokenTree:
    tree = TokenTree(7)
    for parent, token, score, origin in steps:
        tree.add(parent % len(tree), token, score, origin)
    return tree


def mask(tree: TokenTree):
    return tree.ancestor_mask(range(len(tree)), range(len(tree)))


def texts(tree: TokenTree) -> list[tuple[int, ...]]:
    """Each node as the tokens from the root to it."""
    return [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))]


def test_a_new_tree_is_its_root():
    tree = TokenTree(7)
    assert (len(tree), tree.tokens, tree.parents, tree.depths, tree.path(ROOT)) == (1, [7], [-1], [0], [0])
    assert mask(tree).tolist() == [[True]]


@given(additions)
def test_parents_come_before_children_and_the_lists_agree(steps):
    tree = grow(steps)
    lists = (tree.tokens, tree.parents, tree.depths, tree.scores, tree.origins, tree.children)
    assert {len(values) for values in lists} == {len(tree)}
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        assert 0 <= parent < node
        assert tree.depths[node] == tree.depths[parent] + 1
        assert tree.children[parent][tree.tokens[node]] == node
    assert sum(len(children) for children in tree.children) == len(tree) - 1


@given(additions)
def test_no_text_is_guessed_twice(steps):
    tree = grow(steps)
    assert len(set(texts(tree))) == len(tree)


def test_a_guess_made_twice_stays_with_whom_it_was_from_first():
    tree = TokenTree(7)
    first = tree.add(ROOT, 5, 0.5, "draft2")
    assert tree.add(ROOT, 5, 0.9, "draft") == first
    assert (len(tree), tree.scores[first], tree.origins[first]) == (2, 0.5, "draft2")
    assert tree.add(first, 5, 0.4, "draft") != first


@given(additions, st.integers(0, 50))
def test_the_best_nodes_are_a_tree_with_the_highest_scores(steps, count):
    tree = grow(steps)
    best = tree.best(count)
    assert len(best) == min(count, len(tree))
    assert best == sorted(best)
    assert all(tree.parents[node] in best for node in best if node != ROOT)
    left = [tree.scores[node] for node in range(len(tree)) if node not in best]
    assert not best or not left or min(tree.scores[node] for node in best) >= max(left)


@given(additions, st.integers(1, 50), st.floats(0.0, 1.0))
def test_a_new_score_scales_what_is_below(steps, node, factor):
    tree, before = grow(steps), grow(steps)
    node %= len(tree)
    tree.rescore(node, before.scores[node] * factor)
    for other in range(len(tree)):
        scaled = factor if node in tree.path(other) else 1.0
        assert tree.scores[other] == pytest.approx(before.scores[other] * scaled)


@pytest.mark.parametrize(("before", "score"), [(0.14, 0.11), (0.27, 0.19), (0.28, 0.11), (0.28, 0.15)])
def test_no_node_is_better_than_its_parent_by_a_rounding_error(before, score):
    tree = TokenTree(7)
    parent = tree.add(ROOT, 1, before, "draft2")
    tree.add(parent, 2, before, "draft2")
    tree.rescore(parent, score)
    assert tree.best(2) == [ROOT, parent]


@given(additions)
def test_a_path_leads_from_the_root_to_its_node(steps):
    tree = grow(steps)
    for node in range(len(tree)):
        path = tree.path(node)
        assert (path[0], path[-1], len(path)) == (ROOT, node, tree.depths[node] + 1)
        assert all(tree.parents[child] == parent for parent, child in pairwise(path))


@given(additions)
def test_the_mask_shows_each_node_its_path_and_nothing_else(steps):
    tree = grow(steps)
    naive = [[column in tree.path(row) for column in range(len(tree))] for row in range(len(tree))]
    assert mask(tree).tolist() == naive


@given(additions, st.integers(0, 50))
def test_a_mask_of_some_rows_and_columns_is_that_part_of_the_whole(steps, count):
    tree = grow(steps)
    rows = tree.best(count)
    columns = rows[::-1]
    assert tree.ancestor_mask(rows, columns).tolist() == mask(tree)[rows][:, columns].tolist()


def test_the_root_never_sees_its_descendants():
    tree = TokenTree(7)
    tree.add(tree.add(ROOT, 1, 0.5, "draft"), 2, 0.5, "draft")
    assert mask(tree)[ROOT].tolist() == [True, False, False]


def test_of_a_chain_only_the_path_of_the_best_children_is_worth_anything():
    tree = TokenTree(9, "chain")
    poor = tree.add(ROOT, 1, 0.3, "draft2")
    tree.add(poor, 2, 0.29, "draft2")
    good = tree.add(ROOT, 3, 0.6, "draft")
    below = tree.add(good, 4, 0.2, "draft")
    assert tree.best(10) == [ROOT, good, below]
    tree.rescore(good, 0.1)
    assert tree.best(10) == [ROOT, poor, poor + 1]
    assert tree.best(10, among=[poor + 1, good]) == [poor + 1]
