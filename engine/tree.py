"""The tree of guesses that one forward pass checks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.request import Origin, Shape

ROOT = 0


class TokenTree:
    """Node 0, the root, is the last emitted token; every other node guesses what follows its parent.

    Parallel lists, one element a node, parents before their children:
    tokens; parents (-1 for the root); depths (0 for the root); scores, the estimated probability that
    the oracle's walk reaches the node, never above the parent's; origins, the stage that first proposed it;
    children, for each node its successors as {token: node}. Equal tokens under one parent are one node.
    Nodes are only ever added: a node keeps its number for as long as the tree lives. Of shape ``chain`` only
    the leading path is worth anything: from the root on the child of the highest score.
    """

    def __init__(self, root_token: int, shape: Shape = "tree") -> None:
        self.shape = shape
        self.tokens = [root_token]
        self.parents = [-1]
        self.depths = [0]
        self.scores = [1.0]
        self.origins: list[Origin] = ["oracle"]
        self.children: list[dict[int, int]] = [{}]

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, parent: int, token: int, score: float, origin: Origin) -> int:
        """The child ``token`` of ``parent``, added if it was not there; returns its node.

        A score above the parent's is cut to it.
        """
        known = self.children[parent].get(token)
        if known is not None:
            return known
        node = len(self.tokens)
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.scores.append(min(score, self.scores[parent]))
        self.origins.append(origin)
        self.children.append({})
        self.children[parent][token] = node
        return node

    def rescore(self, node: int, score: float) -> None:
        """Give ``node`` a new score, and scale those below it alike; rounded, none is above its parent's."""
        factor = score / self.scores[node] if self.scores[node] > 0 else 0.0
        self.scores[node] = score
        rescored = [node]
        while rescored:
            parent = rescored.pop()
            for child in self.children[parent].values():
                self.scores[child] = min(self.scores[child] * factor, self.scores[parent])
                rescored.append(child)

    def chance(self, node: int) -> float:
        """The share of its parent's score that ``node`` has; 0 where the parent has none."""
        whole = self.scores[self.parents[node]]
        return self.scores[node] / whole if whole > 0 else 0.0

    def path(self, node: int) -> list[int]:
        """The nodes from the root to ``node``, both included."""
        nodes = []
        while node >= 0:
            nodes.append(node)
            node = self.parents[node]
        return nodes[::-1]

    def best(self, count: int, among: Sequence[int] | None = None) -> list[int]:
        """The ``count`` nodes of the highest scores (of ``among``, by default of all), in rising order.

        No score is above the parent's, and of equals the older node counts as the better, so the parent of
        a node that is taken is taken too, if it is ``among`` them.
        """
        nodes = range(len(self.tokens)) if among is None else among
        if self.shape == "chain":
            leading = set(self._leading())
            nodes = [node for node in nodes if node in leading]
        ranked = sorted(nodes, key=lambda node: (-self.scores[node], node))
        return sorted(ranked[:count])

    def _leading(self) -> list[int]:
        nodes = [ROOT]
        while self.children[nodes[-1]]:
            below = self.children[nodes[-1]].values()
            nodes.append(max(below, key=lambda node: (self.scores[node], -node)))
        return nodes

    def ancestor_mask(self, rows: Sequence[int], columns: Sequence[int]) -> NDArray[np.bool_]:
        """[rows, columns]: True where the node of the column is the row's ancestor or the row itself."""
        at = {node: index for index, node in enumerate(columns)}
        mask = np.zeros((len(rows), len(columns)), dtype=np.bool_)
        for index, node in enumerate(rows):
            while node >= 0:
                column = at.get(node)
                if column is not None:
                    mask[index, column] = True
                node = self.parents[node]
        return mask
