"""Which path of the tree the oracle takes."""

from __future__ import annotations

from collections.abc import Sequence

from engine.tree import ROOT, TokenTree


def walk(tree: TokenTree, choices: Sequence[int]) -> tuple[list[int], int]:
    """Follow the oracle's own choices down the tree.

    choices: for each node, the token that the oracle draws after it. Where the tree has that token as a
    child the walk goes on there; where it has not, the walk ends and the choice is the bonus token. Each
    token is thus the oracle's own, whoever proposed it.

    Returns the accepted nodes, the root first, and the bonus token.
    """
    node = ROOT
    accepted = [ROOT]
    while (child := tree.children[node].get(choices[node])) is not None:
        accepted.append(child)
        node = child
    return accepted, choices[node]
