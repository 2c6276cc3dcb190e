"""The tree of guesses that one forward pass checks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.request import Origin

ROOT = 0


class TokenTree:
    """Node 0, the root, is the last emitted token; every other node guesses what follows its parent.

    Parallel lists, one element a node, parents before their children:
    tokens; parents (-1 for the root); depths (0 for the root); scores, the estimated probability that
    the oracle's walk reaches the node; origins, the stage that first proposed it; children, for each
    node its successors as {token: node}. Equal tokens under one parent are one node.
    """

    def __init__(self, root_token: int) -> None:
        self.tokens = [root_token]
        self.parents = [-1]
        self.depths = [0]
        self.scores = [1.0]
        self.origins: list[Origin] = ["oracle"]
        self.children: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, score: float, origin: Origin) -> int:
        """The child ``token`` of ``parent``, added if it was not there; returns its node."""
        known = self.children[parent].get(token)
        if known is not None:
            return known
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.scores.append(score)
        self.origins.append(origin)
        self.children.append({})
        self.children[parent][token] = node
        return node

    def cut(self, size: int) -> None:
        """Keep the first ``size`` nodes. Parents come before children, so what is left is a tree."""
        for node in range(len(self.tokens) - 1, size - 1, -1):
            del self.children[self.parents[node]][self.tokens[node]]
        for values in (self.tokens, self.parents, self.depths, self.scores, self.origins, self.children):
            del values[size:]

    def path(self, node: int) -> list[int]:
        """The nodes from the root to ``node``, both included."""
        nodes = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def ancestor_mask(self) -> NDArray[np.bool_]:
        """[nodes, nodes]: True where the column is the row's ancestor or the row itself."""
        mask = np.eye(len(self.tokens), dtype=np.bool_)
        for node in range(1, len(self.tokens)):
            mask[node] |= mask[self.parents[node]]
        return mask
