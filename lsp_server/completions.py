"""One request, from the text and the cursor to the suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from engine.request import CancelToken, Cycle, Origin, SamplingParams
from lsp_server.documents import Cursor, without_line_end
from lsp_server.prompt import PromptFormat
from lsp_server.stopping import Place, end_of_suggestion
from lsp_server.trimming import line_end, trim

if TYPE_CHECKING:
    from engine.engine import Engine

MAX_TOKENS = 64
USUAL = SamplingParams(MAX_TOKENS)
_LINES_BELOW = 8
_REACH = 1000  # characters of a line that are looked at, so that a line of megabytes costs no more


@dataclass(frozen=True)
class Suggestion:
    """What to insert at the cursor, and how it came about.

    text: with the document's own line ends; empty when there is nothing worth showing. It is a beginning
    of the joined ``tokens`` but for its line ends.
    tokens: the text of every token up to the one that ended the suggestion ("" for one that ends inside
    a character, whose text comes with the next). origins: the stage that first proposed each.
    cycles: those that emitted a token. seconds: what the engine took, the prompt's reading not counted.
    """

    text: str
    tokens: list[str]
    origins: list[Origin]
    cycles: int
    seconds: float

    @property
    def tokens_per_cycle(self) -> float:
        return len(self.tokens) / self.cycles if self.cycles else 0.0

    @property
    def tokens_per_second(self) -> float:
        return len(self.tokens) / self.seconds if self.seconds else 0.0


class Completer:
    """Asks one engine for suggestions."""

    def __init__(self, engine: Engine) -> None:
        """Raises DraftlineError if prompts for this model cannot be written."""
        self.engine = engine
        self._format = PromptFormat(engine.tokenizer, engine.name)

    def complete(
        self,
        lines: Sequence[str],
        cursor: Cursor,
        cancel: CancelToken,
        wanted: SamplingParams = USUAL,
    ) -> Suggestion:
        """The suggestion for the text ``lines`` (each with its line end) at ``cursor``.

        wanted: how to decode; where the text ends is known here. A cancelled one is as long as it got.
        """
        engine = self.engine
        place = place_of(lines, cursor)
        max_tokens = min(wanted.max_tokens, engine.max_context // 2)
        prompt = self._format.build(lines, cursor, engine.max_context - max_tokens - 1)
        stop_ids = (*engine.eos_ids, *self._format.stop_ids)
        params = replace(wanted, max_tokens=max_tokens, stop_ids=stop_ids)
        written = self._read(
            engine.generate(prompt.ids, params, cancel=cancel, context_ids=prompt.context), place
        )
        unfinished = written.end is None and (len(written.ids) >= max_tokens or cancel.cancelled)
        text = trim(written.text[: written.end], place, unfinished)
        return Suggestion(
            text.replace("\n", line_end(lines, cursor.line)),
            written.tokens,
            written.origins,
            written.cycles,
            written.seconds,
        )

    def _read(self, generation: Iterable[Cycle], place: Place) -> _Written:
        written = _Written()
        for cycle in generation:
            written.cycles += bool(cycle.tokens)  # one that only met the text's end emits nothing
            written.seconds += cycle.seconds
            for token, origin in zip(cycle.tokens, cycle.origins, strict=True):
                written.ids.append(token)
                written.origins.append(origin)
                text = _finished(self.engine.tokenizer.decode(written.ids))
                written.tokens.append(text[len(written.text) :])
                written.text = text
                written.end = end_of_suggestion(text, place)
                if written.end is not None:
                    return written
        return written


@dataclass
class _Written:
    """What the model has written so far; ``end`` is where the suggestion ends, once that is known."""

    ids: list[int] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    cycles: int = 0
    seconds: float = 0.0
    text: str = ""
    end: int | None = None


def place_of(lines: Sequence[str], cursor: Cursor) -> Place:
    line = lines[cursor.line]
    start = max(0, cursor.character - _REACH)
    indentation = re.match(r"[ \t]*", line[: min(start, _REACH)])
    return Place(
        left=(indentation[0] if indentation else "") + line[start : cursor.character],
        right=without_line_end(line[cursor.character : cursor.character + _REACH]),
        below=tuple(islice(_not_blank(lines, cursor.line + 1), _LINES_BELOW)),
    )


def _not_blank(lines: Sequence[str], first: int) -> Iterable[str]:
    return (without_line_end(lines[n][:_REACH]) for n in range(first, len(lines)) if lines[n].strip())


def _finished(text: str) -> str:
    """``text`` with "\n" as its only line end, without a last character of which bytes are still to come."""
    return text.rstrip("\ufffd").replace("\r", "")
