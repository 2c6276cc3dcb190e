"""Longest suffix match in the text so far, its prompt and its output: what followed here before?

An index of every n-gram of up to MAX_MATCH + 1 tokens, as a trie grown only where n-grams repeat. An
n-gram seen once is just the position after it: its continuation is read from the text. At its second
occurrence it becomes a node. So a token costs one step per length at which the text repeats itself just
then, two or three as a rule, and never more than MAX_MATCH + 1: constant time, and exact counts.

Longer matches than MAX_MATCH are not told apart. A suffix automaton would tell them, but it keeps counts
up to date only along chains of suffix links, which a text like `0, 0, 0, 0, ...` makes as long as itself.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_MATCH = 16


class _Node:
    """An n-gram seen at least twice: how often, and what followed it, in the order first seen."""

    __slots__ = ("count", "next")

    def __init__(self, count: int) -> None:
        self.count = count
        self.next: dict[int, _Node | int] = {}


State = tuple["_Node | int", ...]
"""Where a text stands: element i is its last i tokens as found in the index, up to the longest match.

A node, or the position after the one occurrence. Valid until the next ``extend``.
"""


class Lookup:
    """The index of one request's text. ``extend`` commits tokens; ``after`` tries one without committing."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._text: list[int] = []
        self._root = _Node(0)
        self._active: list[_Node] = [self._root]  # element i: the last i tokens, if seen before as well
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._text)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append ``tokens`` to the text."""
        text, active = self._text, self._active
        for token in tokens:
            text.append(token)
            longer = [self._root]
            for node in active:
                child = node.next.get(token)
                if child is None:  # seen now for the first time, and so in all longer contexts
                    node.next[token] = len(text)
                elif isinstance(child, int):
                    node.next[token] = grown = _Node(2)
                    grown.next[text[child]] = child + 1
                    longer.append(grown)
                else:
                    child.count += 1
                    longer.append(child)
            active = longer[: MAX_MATCH + 1]
        self._active = active

    @property
    def state(self) -> State:
        """Where the committed text stands."""
        return tuple(self._active)

    def after(self, state: State, token: int) -> State:
        """Where the text of ``state`` stands with one more token, which need not be committed ever."""
        text = self._text
        longer: list[_Node | int] = [self._root]
        for element in state[:MAX_MATCH]:
            if isinstance(element, int):
                if element == len(text) or text[element] != token:
                    break
                longer.append(element + 1)
            else:
                child = element.next.get(token)
                if child is None:
                    break
                longer.append(child)
        return tuple(longer)

    def candidates(self, state: State, k: int) -> list[tuple[int, int, int]]:
        """Up to ``k`` likely next tokens as (token, count, match_length), each token once.

        Longest match first, then the most frequent, then the one that was new most recently. count is
        how often the token followed the last match_length tokens; match_length is at least 1.
        """
        found: list[tuple[int, int, int]] = []
        known: set[int] = set()
        for length in range(len(state) - 1, 0, -1):
            element = state[length]
            if isinstance(element, int):
                if known or element == len(self._text):
                    continue
                ranked = [(1, self._text[element])]
            elif len(element.next) == len(known):
                continue  # what followed a longer match followed its end as well, so these are the same
            else:
                ranked = [
                    (1 if isinstance(child, int) else child.count, token)
                    for token, child in reversed(element.next.items())
                ]
                ranked.sort(key=_count, reverse=True)
            for count, token in ranked:
                if token not in known:
                    known.add(token)
                    found.append((token, count, length))
                    if len(found) == k:
                        return found
        return found


def _count(ranked: tuple[int, int]) -> int:
    return ranked[0]
