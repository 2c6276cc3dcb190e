"""Token healing: a text that must begin with what the user has already typed of it.

A tokenizer cuts ``retu`` as ``ret`` and ``u``, and a model that knows ``return`` as one token does not
know how to go on from there. So the typed characters are taken back from the prompt, and the oracle writes
them anew: while some of them are still to come, it chooses among those tokens alone that begin with them or
are a beginning of them. What is compared are bytes, as one character may be several tokens.

The constraint is part of the oracle's own rule, so plain and staged decoding still write the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from engine.sampling import Row, Sampler
from engine.stages import Rule
from engine.tree import TokenTree


class TokenIndex:
    """The tokens of a vocabulary by the bytes they stand for."""

    def __init__(self, texts: Mapping[int, bytes]) -> None:
        """texts: the bytes of each token; a token without any is never found."""
        ranked = sorted((token for token, text in texts.items() if text), key=texts.__getitem__)
        self._texts = [texts[token] for token in ranked]
        self._tokens = np.array(ranked, dtype=np.int64)
        self._longest = max(map(len, self._texts), default=0)

    def allowed(self, rest: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The tokens that begin with ``rest`` or are a beginning of it, rising, and how many bytes of it
        each covers."""
        parts = []
        for length in range(1, min(len(rest), self._longest + 1)):
            start = bisect_left(self._texts, rest[:length])
            parts.append((start, bisect_right(self._texts, rest[:length], lo=start), length))
        start = bisect_left(self._texts, rest)
        end = bisect_right(self._texts, rest, lo=start, key=lambda text: text[: len(rest)])
        parts.append((start, end, len(rest)))
        tokens = np.concatenate([self._tokens[start:end] for start, end, _ in parts])
        covered = np.repeat([length for *_, length in parts], [end - start for start, end, _ in parts])
        order = np.argsort(tokens)
        return tokens[order], covered[order]


class Healing:
    """A `Rule` that keeps to the typed characters first, and to ``rule`` from there on. For one request.

    A greedy choice is the likeliest of the tokens allowed; a draw is from their law, processed as any other,
    with the same noise. Where none is allowed, the characters that are left are forgotten.
    """

    def __init__(self, rule: Rule, sampler: Sampler, index: TokenIndex, begins_with: str) -> None:
        self._rule = rule
        self._sampler = sampler
        self._index = index
        self._rest = begins_with.encode("utf-8", "replace")

    def __call__(self, tree: TokenTree, node: int, row: Row, position: int) -> tuple[int, bool]:
        # A walk asks once for each token that is emitted, in order, so what is left is one string.
        if self._rest:
            tokens, covered = self._index.allowed(self._rest)
            if len(tokens):
                logits = row.logits
                only = np.full_like(logits, -np.inf)
                only[tokens] = logits[tokens]
                token = self._sampler.choose(Row(only), position)
                self._rest = self._rest[int(covered[np.searchsorted(tokens, token)]) :]
                return token, True
            self._rest = b""
        return self._rule(tree, node, row, position)
