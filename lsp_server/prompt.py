"""From a text and a cursor to the model's prompt: the fill-in-the-middle form of its family, within a budget.

While the user types, little but the prompt's end should change: the engine's KV cache serves the rest. The
window's top moves in steps, not with every character. The lines typed last stand where the middle begins, as
its first part: in the prefix they would make the model read all of the suffix behind them again. And the
word, the blanks or the sign left of the cursor, which may be half a token, are not in the prompt at all: the
model writes them anew (see `engine.healing`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from engine.errors import DraftlineError
from engine.fill_in_the_middle import FAMILIES, Family, beginning_of_text, family_of
from lsp_server.documents import Cursor
from lsp_server.prompt_budget import CHARACTERS_PER_TOKEN
from lsp_server.prompt_head import NOWHERE, HeadFormat, Surroundings

ANCHOR_LINES = 8  # the middle begins at a line whose number is a multiple of this, if that is in the window
_STEP_LINES = 32
_STEP_CHARACTERS = 256

# What tokenizers do not take apart: a word with a sign before it, blanks; or the sign that stands last.
_HEALED = re.compile(r"(?:(?<![^\w\s])(?<!_)(?:[^\w\n]|_))?[^\W\d_]+\Z|[ \t]+\Z|.\Z", re.DOTALL)
_LONGEST_HEALED = 64  # characters looked at
_MOST_HEALED = 6  # tokens: each costs a forward pass
_REMEMBERED = 32  # texts whose tokens are: the prompts of one place, long and short, share most of theirs

_LOOKS_LIKE_FIM = re.compile(r"fim[-_▁]|<(PRE|SUF|MID)>|prefix|suffix|middle", re.IGNORECASE)


@dataclass(frozen=True)
class Prompt:
    """ids: what the model reads. context: the user's text as guesses go by it, so ending at the cursor.

    begins_with: what the model has to write anew, the characters left of the cursor whose ``healed`` tokens
    were taken off the prefix's end.
    """

    ids: list[int]
    context: list[int]
    begins_with: str = ""
    healed: int = 0


class Vocabulary(Protocol):
    """What a prompt is made of: an `engine.tokenizer.Tokenizer`'s tokens, or a stand-in's."""

    special: dict[str, int]
    opening: str

    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...


class PromptFormat:
    """Writes prompts for one model."""

    def __init__(self, tokenizer: Vocabulary, model_name: str) -> None:
        """Find the model's family by its special tokens.

        A model without any fill-in-the-middle tokens continues the prefix.

        Raises:
            DraftlineError: it has such tokens, but in a form that is not known here.
        """
        self._tokenizer = tokenizer
        self._tokens = lru_cache(_REMEMBERED)(lambda text: tuple(tokenizer.encode(text)))
        special = tokenizer.special
        self._family = family_of(special)
        if self._family is None:
            strange = sorted(name for name in special if _LOOKS_LIKE_FIM.search(name))
            if strange:
                known = "; ".join(family.name for family in FAMILIES)
                raise DraftlineError(
                    f"{model_name} marks the middle with tokens that draftline does not know "
                    f"({', '.join(strange[:4])}); choose a model of one of these families: {known}."
                )
        family = self._family or Family("", "", "", "")
        self._head = HeadFormat(special, self._encode, family.repository, family.file, family.path_behind)
        self.stop_ids: tuple[int, ...] = tuple(special.values())  # no control token belongs in a suggestion

    def build(
        self, lines: Sequence[str], cursor: Cursor, room: int, around: Surroundings = NOWHERE
    ) -> Prompt:
        """The prompt for ``lines`` (with their line ends) at ``cursor``, in at most ``room`` tokens."""
        special, family = self._tokenizer.special, self._family
        budget = around.budget
        head = self._head.write(around, min(budget.head, room // 4))
        room -= len(head)
        if family is None:
            start = beginning_of_text(special)
            prefix, _ = self._prefix(lines, cursor, min(budget.prefix, room - len(start)))
            healed, begins_with = self._to_heal(prefix if start else prefix[1:], lines, cursor)
            prefix = prefix[: len(prefix) - healed]
            ids = [*start, *head.behind, *prefix]
            return Prompt(ids, [*head.behind, *prefix], begins_with, healed)
        room -= len(family.start) + 3
        prefix, typed = self._prefix(lines, cursor, min(budget.prefix, room * 3 // 4), anchored=True)
        last = typed or prefix
        healed, begins_with = self._to_heal(last, lines, cursor)
        del last[len(last) - healed :]
        suffix = self._suffix(lines, cursor, min(budget.suffix, room // 4))
        ids = family.write(special, [*head.behind, *prefix], suffix, typed, head.before)
        context = [*head.before, *head.behind, *suffix, special[family.prefix], *prefix, *typed]
        return Prompt(ids, context, begins_with, healed)

    def _to_heal(self, prefix: Sequence[int], lines: Sequence[str], cursor: Cursor) -> tuple[int, str]:
        """How many of ``prefix``'s last tokens may be only half of one, and what they say.

        These are the tokens of the word, the blanks or the sign that ends at the cursor, back to a place
        where the tokenizer would cut whatever follows; never beyond the line.
        """
        left = _plain(lines[cursor.line][max(0, cursor.character - _LONGEST_HEALED) : cursor.character])
        run = _HEALED.search(left)
        if run is None or left[-1:].isdigit():  # numbers are cut digit by digit
            return 0, ""
        shortest = 0, ""
        for count in range(1, min(_MOST_HEALED, len(prefix)) + 1):
            text = self._tokenizer.decode(prefix[-count:])
            if not left.endswith(text):  # half a character, or it goes back beyond the line
                continue
            if len(text) >= len(run[0]):
                return count, text
            if not shortest[0]:
                shortest = count, text
        return shortest

    def _encode(self, text: str) -> list[int]:
        return list(self._tokens(_plain(text)))

    def _prefix(
        self, lines: Sequence[str], cursor: Cursor, budget: int, anchored: bool = False
    ) -> tuple[list[int], list[int]]:
        """The text before the cursor; anchored: in two parts, of which typing changes the second alone."""
        characters = budget * CHARACTERS_PER_TOKEN
        while True:
            top = window_top(lines, cursor, characters)
            anchor = Cursor(cursor.line - cursor.line % ANCHOR_LINES, 0) if anchored else cursor
            if (anchor.line, anchor.character) <= (top.line, top.character):
                anchor = cursor
            ids = self._encode(self._tokenizer.opening + _between(lines, top, anchor))
            typed = self._encode(_between(lines, anchor, cursor))
            if len(ids) + len(typed) <= budget or characters <= _STEP_CHARACTERS:
                typed = typed[-budget:]
                return ids[max(0, len(ids) + len(typed) - budget) :], typed
            characters = characters * 2 // 3

    def _suffix(self, lines: Sequence[str], cursor: Cursor, budget: int) -> list[int]:
        characters = budget * CHARACTERS_PER_TOKEN
        text = lines[cursor.line][cursor.character : cursor.character + characters]
        for line in lines[cursor.line + 1 :]:
            if len(text) + len(line) > characters:
                break
            text += line
        return self._encode(text)[:budget]


def window_top(lines: Sequence[str], cursor: Cursor, characters: int) -> Cursor:
    """Where the prefix begins so that it has at most ``characters`` characters.

    It is the beginning of the text, or else a line (in one long line, a character) whose number is a
    multiple of a step, so that it stays put while the user types.
    """
    if cursor.character > characters:
        top = _round_up(cursor.character - characters, _STEP_CHARACTERS)
        return Cursor(cursor.line, min(top, cursor.character))
    line, size = cursor.line, cursor.character
    while line > 0 and size + len(lines[line - 1]) <= characters:
        line -= 1
        size += len(lines[line])
    if line == 0:
        return Cursor(0, 0)
    stepped = _round_up(line, _STEP_LINES)
    wastes_much = stepped - line > (cursor.line - line) // 2
    return Cursor(line if wastes_much else stepped, 0)


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _between(lines: Sequence[str], start: Cursor, end: Cursor) -> str:
    if start.line == end.line:
        return lines[start.line][start.character : end.character]
    middle = lines[start.line + 1 : end.line]
    return "".join([lines[start.line][start.character :], *middle, lines[end.line][: end.character]])


def _plain(text: str) -> str:
    """What the tokenizer can take: "\\n" as the only line end, so that the same file with other line ends
    gives the same suggestion, and "?" for half a surrogate pair."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8")
