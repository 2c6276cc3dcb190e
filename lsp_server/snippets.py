"""Which pieces of other places are most like the text round the cursor.

Texts are cut into blocks of a few lines, each known by its identifiers. How alike two blocks are is the
share of identifiers that they have in common, weighted so that a rare one says more than a common one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lsp_server.documents import Cursor
from lsp_server.indentation import indentation

MAX_LINES = 16  # of a block: three or four fit in the prompt
_SHORT = 2  # lines: such paragraphs at the same level, constants say, make one block
_LONGEST_LINE = 400  # a longer one is data or minified

# Of the identifiers that the line at the cursor needs and the prompt's window lacks (900 cursors in nine
# libraries, 4 neighbours open), these find 12.8 % in 840 characters, 20 and 4 lines 10 %. But a choice also
# serves the lines typed after it, and 16 lines on, 12 and 4 do better, 8.9 % against 7.1 %.
_LINES_ABOVE, _LINES_BELOW = 8, 2
_LEAST_SIMILARITY = 0.1
_LEAST_SHARED = 2  # identifiers
_MOST_SNIPPETS = 4
_LIKELIER = 2  # what was edited lately or is imported counts so many times
_GOOD_ENOUGH = 0.8  # share of the best choice's score from which the current one stands
_SAME = 0.9  # share of identifiers in common from which two blocks count as one
_KNOWN = 0.5  # share of a block's lines that stand round the cursor already, over which it says nothing new

_WORD = re.compile(r"[^\W\d]\w{2,}")
_KEYWORDS = """
and any assert async await bool break case catch char class const continue def default del dict do
double elif else enum except export extends extern false False final finally float fn for from func
function global goto if impl implements import in include instanceof int interface is lambda let list
long match module mut namespace new nil None nonlocal not null number object of or package pass print
private protected pub public raise range return self set short sizeof static str string struct super
switch template this throw throws trait true True try tuple type typedef typeof undefined unsigned use
using var virtual void where while with yield
"""
_NO_WORDS = frozenset(_KEYWORDS.split())


@dataclass(frozen=True)
class Block:
    """lines: whole lines with their ends, neither the first nor the last blank. words: their identifiers."""

    lines: tuple[str, ...]
    words: frozenset[str]


@dataclass(frozen=True)
class Candidate:
    """A block, and where it stands. likelier: it was edited lately, or is imported. source: the caller's."""

    path: str
    first_line: int
    block: Block
    likelier: bool = False
    source: object = field(default=None, compare=False)


def words_of(lines: Iterable[str]) -> frozenset[str]:
    """The identifiers in ``lines``, but for the keywords of common languages."""
    return frozenset(_WORD.findall("".join(lines))) - _NO_WORDS


def blocks_of(
    lines: Sequence[str], before: Mapping[tuple[str, ...], Block] | None = None
) -> list[tuple[int, Block]]:
    """The blocks of a text with the number of their first line.

    They begin after blank lines where possible, so that one holds a definition, or a part of a long one.
    before: blocks by their lines, as this function found them in an older text: only what is not among
    them is searched for identifiers.
    """
    known = before or {}
    found = []
    for first, end in _ranges(lines):
        text = tuple(lines[first:end])
        found.append((first, known.get(text) or Block(text, words_of(text))))
    return found


def _ranges(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    first = end = 0  # the block so far
    for top, bottom in _paragraphs(lines):
        both_short = end - first <= _SHORT and bottom - top <= _SHORT
        belongs = both_short or indentation(lines[top]) > indentation(lines[first])
        adjoins = not any(len(line) > _LONGEST_LINE for line in lines[end:top])
        if end > first and belongs and adjoins and bottom - first <= MAX_LINES:
            end = bottom
            continue
        if end > first:
            yield first, end
        first, end = top, bottom
    if end > first:
        yield first, end


def _paragraphs(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Runs of lines that are neither blank nor long, cut where they are as long as a block."""
    top = None
    for number, line in enumerate(lines):
        if not line or line.isspace() or len(line) > _LONGEST_LINE:
            if top is not None:
                yield top, number
            top = None
        elif top is None:
            top = number
        elif number - top == MAX_LINES:
            yield top, number
            top = number
    if top is not None:
        yield top, len(lines)


def block_at(lines: Sequence[str], line: int) -> tuple[int, Block] | None:
    """The block round a line, found without a look at the rest of the text; None among blank lines."""
    top = max(0, line - MAX_LINES)
    inside = [
        (top + first, block)
        for first, block in blocks_of(lines[top : line + MAX_LINES])
        if top + first <= line < top + first + len(block.lines)
    ]
    return inside[0] if inside else None


@dataclass(frozen=True)
class Nearby:
    """What stands round a cursor: the identifiers, and the lines without their indentation and ends."""

    words: frozenset[str]
    lines: frozenset[str]


def nearby(lines: Sequence[str], cursor: Cursor) -> Nearby:
    """Reads a few lines, and of a long one only a part."""
    start = max(0, cursor.character - _LONGEST_LINE)
    window = [
        *(line[:_LONGEST_LINE] for line in lines[max(0, cursor.line - _LINES_ABOVE) : cursor.line]),
        lines[cursor.line][start : cursor.character + _LONGEST_LINE],
        *(line[:_LONGEST_LINE] for line in lines[cursor.line + 1 : cursor.line + 1 + _LINES_BELOW]),
    ]
    return Nearby(words_of(f"{line}\n" for line in window), frozenset(line.strip() for line in window))


def similarities(wanted: frozenset[str], blocks: Sequence[Block]) -> list[float]:
    """How alike each block is to the identifiers ``wanted``, from 0 up; about 1 for the same identifiers.

    The cosine of Salton & Buckley (1988), on sets: the weight of the common identifiers, each log(1 +
    blocks / blocks with it), over the root of the product of both sides' weights. The weight of a block's
    other identifiers is taken as the mean of the wanted ones', for it would take a look-up each.
    """
    shared = [wanted & block.words for block in blocks]
    spread = Counter(word for words in shared for word in words)
    weight = {word: math.log1p(len(blocks) / (1 + spread[word])) for word in wanted}
    whole = sum(weight.values())
    return [
        sum(weight[word] for word in words) / (whole * math.sqrt(len(block.words) / len(wanted)))
        if words
        else 0.0
        for words, block in zip(shared, blocks, strict=True)
    ]


@dataclass(frozen=True)
class Choice:
    """candidates: the most similar last. score: the sum of their similarities."""

    candidates: tuple[Candidate, ...]
    score: float


def choose(
    near: Nearby, candidates: Sequence[Candidate], characters: int, current: Sequence[Candidate] = ()
) -> Choice:
    """The candidates that are most similar to what is ``near``, in at most ``characters`` characters.

    Left out are those with little in common, those that repeat another or what is near, and what is over.
    current: the choice so far. It stands while all of it is still there and it is nearly as good as the
    best, because another head of the prompt makes the model read the whole prompt again.
    """
    similar = similarities(near.words, [candidate.block for candidate in candidates])
    ranked = [
        (score * _LIKELIER if candidate.likelier else score, candidate)
        for score, candidate in zip(similar, candidates, strict=True)
        if len(near.words & candidate.block.words) >= _LEAST_SHARED and not _known(candidate.block, near)
    ]
    ranked.sort(key=lambda pair: (-pair[0], pair[1].path, pair[1].first_line))
    best = _best(ranked, characters)
    places = {(candidate.path, candidate.block.lines) for candidate in current}
    paths = {path for path, _ in places}
    still = [
        (score, candidate)
        for score, candidate in ranked
        if candidate.path in paths and (candidate.path, candidate.block.lines) in places
    ]
    score = sum(score for score, _ in still)
    if current and len(still) == len(places) and score >= _GOOD_ENOUGH * best.score:
        return Choice(tuple(current), score)
    return best


def _best(ranked: Sequence[tuple[float, Candidate]], characters: int) -> Choice:
    chosen: list[tuple[float, Candidate]] = []
    for score, candidate in ranked:
        if score < _LEAST_SIMILARITY or len(chosen) == _MOST_SNIPPETS:
            break
        size = sum(map(len, candidate.block.lines))
        if size > characters or any(_same(candidate.block, other.block) for _, other in chosen):
            continue
        characters -= size
        chosen.append((score, candidate))
    return Choice(tuple(c for _, c in reversed(chosen)), sum(score for score, _ in chosen))


def _known(block: Block, near: Nearby) -> bool:
    lines = [stripped for line in block.lines if (stripped := line.strip())]
    return sum(line in near.lines for line in lines) > _KNOWN * len(lines)


def _same(one: Block, other: Block) -> bool:
    return len(one.words & other.words) >= _SAME * len(one.words | other.words)
