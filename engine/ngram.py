"""Reading a trigram table: the likeliest successors of the last two tokens, in microseconds.

The file stays mapped, so only touched pages are in memory and all processes share them. Sections are
memoryviews: indexing one gives a Python number, and ``bisect`` walks them in C, without numpy scalars.
See ``katz`` for the probabilities and ``ngram_file`` for the layout.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.katz import K
from engine.ngram_file import HEAD, check_tokenizer, floats, integers, open_file, verify_body


class NgramTable:
    """A table opened for reading. A context is the text so far: its last two tokens count, or fewer.

    Tokens outside the vocabulary may stand in a context; nothing is known after them.
    """

    def __init__(self, path: Path, tokenizer_fingerprint: str) -> None:
        """Map the table at ``path``; takes milliseconds whatever its size.

        Raises:
            DraftlineError: the table is missing, cut short, of another format version or tokenizer.
        """
        self.path = path
        self._description, self._data = open_file(path)
        try:
            check_tokenizer(path, self._description, tokenizer_fingerprint)
        except Exception:
            self._data.close()
            raise
        self.vocab_size = self._description.vocab_size
        # r -> discounted r, for counts up to K
        self._discounted1, self._discounted2, self._discounted3 = (
            [0.0, *(r * factor for r, factor in enumerate(factors, start=1))]
            for factors in self._description.discounts
        )
        self._token_count = integers(self._description, self._data, "token_count")
        self._token_total = floats(self._description, self._data, "token_total")
        self._token_alpha = floats(self._description, self._data, "token_alpha")
        self._token_start = integers(self._description, self._data, "token_start")
        self._token_order = integers(self._description, self._data, "token_order")
        self._bigram_id = integers(self._description, self._data, "bigram_id")
        self._bigram_count = integers(self._description, self._data, "bigram_count")
        self._bigram_total = floats(self._description, self._data, "bigram_total")
        self._bigram_alpha = floats(self._description, self._data, "bigram_alpha")
        self._bigram_start = integers(self._description, self._data, "bigram_start")
        self._bigram_order = integers(self._description, self._data, "bigram_order")
        self._trigram_id = integers(self._description, self._data, "trigram_id")
        self._trigram_count = integers(self._description, self._data, "trigram_count")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """How many tokens of the vocabulary, bigrams and trigrams the table holds."""
        return self.vocab_size, len(self._bigram_id), len(self._trigram_id)

    def verify(self) -> None:
        """Read the whole table and check it.

        Raises:
            DraftlineError: it is damaged.
        """
        verify_body(self.path, self._description, self._data)

    def top(self, context: Sequence[int], k: int) -> tuple[list[int], list[float]]:
        """The ``k`` likeliest successors, by falling Katz probability, and their probabilities.

        All orders are merged: a successor known only from its bigram, or from its frequency, comes
        before a seen trigram where its backed-off probability is larger. Made for k up to HEAD: beyond
        that a context's trigrams must be sorted first.
        """
        tokens: list[int] = []
        scores: list[float] = []
        head: list[int] = []  # the most frequent trigrams, then `tail_start:tail_end` holds the rest
        tail_start = tail_end = 0
        scale = 1.0
        floor = 0.0  # once k are found, what a further one must exceed

        bigram = self._find(context)
        if bigram >= 0:
            start, tail_end = self._bigram_start[bigram], self._bigram_start[bigram + 1]
            tail_start = min(start + HEAD, tail_end)
            if tail_end > start:
                head = self._trigram_id[start:tail_start].tolist()
                tokens = head[:k]
                counts = self._trigram_count[start : start + len(tokens)].tolist()
                if k > HEAD and tail_start < tail_end:
                    tokens, counts = self._many(start, tail_end, k)
                discounted, total = self._discounted3, self._bigram_total[bigram]
                scores = [(discounted[c] if c <= K else c) / total for c in counts]
                if len(scores) == k:
                    floor = scores[-1]
                scale = self._bigram_alpha[bigram]
        seen = len(tokens)

        last = context[-1] if context else -1
        start = end = 0
        if 0 <= last < self.vocab_size:
            start, end = self._token_start[last], self._token_start[last + 1]
        if start < end:
            discounted, counts2, ids = self._discounted2, self._bigram_count, self._bigram_id
            factor = scale / self._token_total[last]
            wanted = seen + k
            for index in self._bigram_order[start:end]:
                c = counts2[index]
                score = (discounted[c] if c <= K else c) * factor
                if score <= floor:
                    break
                token = ids[index]
                if token in head or (tail_start < tail_end and self._has(token, tail_start, tail_end)):
                    continue
                tokens.append(token)
                scores.append(score)
                if len(tokens) == wanted:
                    break
            scale *= self._token_alpha[last]
            if len(scores) >= k:
                floor = sorted(scores)[-k]

        wanted = len(tokens) + k
        for token in self._token_order:
            score = scale * self._unigram(token)
            if score <= floor or len(tokens) == wanted:
                break
            at = bisect_left(self._bigram_id, token, start, end)
            if at < end and self._bigram_id[at] == token:
                continue
            tokens.append(token)
            scores.append(score)

        if len(tokens) > seen:
            ranked = sorted(zip(scores, tokens, strict=True), key=itemgetter(0), reverse=True)[:k]
            return [token for _, token in ranked], [score for score, _ in ranked]
        return tokens, scores

    def probability(self, context: Sequence[int], token: int) -> float:
        """Katz's P(token | the last two tokens of context)."""
        bigram = self._find(context)
        scale = 1.0
        if bigram >= 0:
            start, end = self._bigram_start[bigram], self._bigram_start[bigram + 1]
            tail = min(start + HEAD, end)
            head = self._trigram_id[start:tail].tolist()
            at = (
                start + head.index(token)
                if token in head
                else bisect_left(self._trigram_id, token, tail, end)
            )
            if at < end and self._trigram_id[at] == token:
                return _discount(self._trigram_count[at], self._discounted3) / self._bigram_total[bigram]
            scale = self._bigram_alpha[bigram]
        if context and 0 <= context[-1] < self.vocab_size:
            at = self._bigram(context[-1], token)
            if at >= 0:
                kept = _discount(self._bigram_count[at], self._discounted2)
                return scale * kept / self._token_total[context[-1]]
            scale *= self._token_alpha[context[-1]]
        return scale * self._unigram(token)

    def distribution(self, context: Sequence[int]) -> NDArray[np.float64]:
        """Katz's law of the next token, [vocab]."""
        p = self._discounts(self._token_count, self._discounted1) / self._description.total
        p[p == 0] = self._description.alpha / self.vocab_size
        if context and 0 <= context[-1] < self.vocab_size:
            last = context[-1]
            start, end = self._token_start[last], self._token_start[last + 1]
            p *= self._token_alpha[last]
            p[np.asarray(self._bigram_id[start:end])] = (
                self._discounts(self._bigram_count[start:end], self._discounted2) / self._token_total[last]
            )
        bigram = self._find(context)
        if bigram >= 0:
            start, end = self._bigram_start[bigram], self._bigram_start[bigram + 1]
            p *= self._bigram_alpha[bigram]
            p[np.asarray(self._trigram_id[start:end])] = (
                self._discounts(self._trigram_count[start:end], self._discounted3)
                / self._bigram_total[bigram]
            )
        return p

    def _find(self, context: Sequence[int]) -> int:
        """The index of the context's bigram, or -1."""
        if len(context) < 2 or not 0 <= context[-2] < self.vocab_size:
            return -1
        return self._bigram(context[-2], context[-1])

    def _bigram(self, first: int, second: int) -> int:
        end = self._token_start[first + 1]
        at = bisect_left(self._bigram_id, second, self._token_start[first], end)
        return at if at < end and self._bigram_id[at] == second else -1

    def _has(self, token: int, start: int, end: int) -> bool:
        at = bisect_left(self._trigram_id, token, start, end)
        return at < end and self._trigram_id[at] == token

    def _many(self, start: int, end: int, k: int) -> tuple[list[int], list[int]]:
        """The k most frequent trigrams of a context with more than HEAD, where k is larger than that."""
        pairs = zip(self._trigram_count[start:end], self._trigram_id[start:end], strict=True)
        ranked = sorted(pairs, key=itemgetter(0), reverse=True)[:k]
        return [token for _, token in ranked], [count for count, _ in ranked]

    def _unigram(self, token: int) -> float:
        count = self._token_count[token]
        if count:
            return _discount(count, self._discounted1) / self._description.total
        return self._description.alpha / self.vocab_size

    @staticmethod
    def _discounts(counts: memoryview[int], discounted: list[float]) -> NDArray[np.float64]:
        c = np.asarray(counts)
        return np.where(c <= K, np.array(discounted)[np.minimum(c, K)], c)


def _discount(count: int, discounted: list[float]) -> float:
    return discounted[count] if count <= K else float(count)
