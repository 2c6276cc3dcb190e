"""Pieces of a repository as the model reads them: prompts for the middle with that middle, and plain text.

Most are of the first kind, for so the editor asks. What the draft has to foretell there is the middle; in
plain text, what stands behind the first quarter, with some of the file before it.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.fill_in_the_middle import beginning_of_text, family_of

LENGTH = 512  # tokens of a window at most
SHORTEST = 32
MIDDLES = 0.75  # of the windows, where the model can fill in the middle
LONGEST_MIDDLE = 192


@dataclass(frozen=True)
class Window:
    """ids: what is read. judged: from this position on, the next token is one that counts for recall."""

    ids: tuple[int, ...]
    judged: int


def cut_windows(
    documents: Sequence[Sequence[int]], special: Mapping[str, int], length: int = LENGTH, seed: int = 0
) -> list[Window]:
    """Cut ``documents``, token ids of whole files, into windows of at most ``length`` tokens, shuffled.

    special: the tokenizer's control tokens by name. A document is cut alike whatever others there are, so
    that what the oracle said of its windows (see `model_setup.predictions`) is of use after an edit
    elsewhere.
    """
    family = family_of(special.keys())
    marks = 0 if family is None else len(family.start) + 3
    opening = beginning_of_text(special) if family is None else []
    windows = []
    for document in documents:
        rng = random.Random(f"{seed} {hashlib.sha256(str(list(document)).encode()).hexdigest()}")
        at = 0
        while len(document) - at >= SHORTEST:
            if family is not None and rng.random() < MIDDLES:
                piece = document[at : at + length - marks]
                middle = rng.randint(SHORTEST // 4, min(LONGEST_MIDDLE, len(piece) // 2))
                first = rng.randint(0, len(piece) - middle)
                parts = piece[:first], piece[first + middle :], piece[first : first + middle]
                ids = family.write(special, *parts)
                windows.append(Window(tuple(ids), len(ids) - middle - 1))
            else:
                piece = document[at : at + length - len(opening)]
                ids = [*opening, *piece]
                windows.append(Window(tuple(ids), len(ids) // 4))
            at += len(piece)
    random.Random(seed).shuffle(windows)
    return windows
