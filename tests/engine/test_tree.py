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


def texts(tree: TokenTree) -> list[tuple[int, ...]]:
    """Each node as the tokens from the root to it."""
    return [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(len(tree))]


def test_a_new_tree_is_its_root():
    tree = TokenTree(7)
    assert (len(tree), tree.tokens, tree.parents, tree.depths, tree.path(ROOT)) == (1, [7], [-1], [0], [0])
    assert tree.ancestor_mask().tolist() == [[True]]


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


@given(additions, st.integers(1, 50))
def test_a_cut_keeps_the_first_nodes_as_if_no_more_had_come(steps, size):
    tree, whole = grow(steps), grow(steps)
    tree.cut(size)
    assert len(tree) == min(size, len(whole))
    assert texts(tree) == texts(whole)[:size]
    for node in range(len(tree)):
        assert set(tree.children[node].values()) == {n for n in range(len(tree)) if tree.parents[n] == node}
    assert tree.add(ROOT, 99, 0.1, "draft") == len(tree) - 1


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
    assert tree.ancestor_mask().tolist() == naive


def test_the_root_never_sees_its_descendants():
    tree = TokenTree(7)
    tree.add(tree.add(ROOT, 1, 0.5, "draft"), 2, 0.5, "draft")
    assert tree.ancestor_mask()[ROOT].tolist() == [True, False, False]


@pytest.mark.parametrize("size", [1, 2])
def test_a_tree_may_be_cut_twice(size):
    tree = TokenTree(7)
    tree.add(tree.add(ROOT, 1, 0.5, "draft"), 2, 0.5, "draft")
    tree.cut(2)
    tree.cut(size)
    assert len(tree) == size
