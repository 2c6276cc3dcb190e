"""Which path of the tree the oracle takes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from engine.tree import ROOT, TokenTree


def walk(
    tree: TokenTree, checked: Collection[int], decide: Callable[[int], tuple[int, bool]]
) -> tuple[list[int], list[int]]:
    """Follow the oracle down the tree.

    checked: the nodes whose logits are known, their ancestors among them. decide: for a checked node, the
    token that follows it and whether the guess below it may be accepted at all. The walk goes on where a
    checked child has the token; where none has, it ends with the token as the bonus.

    Returns the accepted nodes, the root first, and the tokens to emit: theirs but the root's, then the bonus.
    """
    node = ROOT
    accepted = [ROOT]
    tokens: list[int] = []
    while True:
        token, acceptable = decide(node)
        tokens.append(token)
        child = tree.children[node].get(token)
        if not acceptable or child is None or child not in checked:
            return accepted, tokens
        accepted.append(child)
        node = child
