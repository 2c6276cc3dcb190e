"""What happens on the engine's thread: from the text and the cursor to the suggestion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from engine.request import CancelToken, Cycle, Origin, SamplingParams
from lsp_server.documents import Cursor, without_line_end
from lsp_server.indentation import Style, style_near
from lsp_server.prompt import Prompt, PromptFormat
from lsp_server.prompt_head import NOWHERE, Surroundings
from lsp_server.stopping import Place, end_of_suggestion
from lsp_server.suggestion import Suggestion
from lsp_server.trimming import line_end, trim

if TYPE_CHECKING:
    from engine.engine import Engine

MAX_TOKENS = 64
USUAL = SamplingParams(MAX_TOKENS)
_LINES_ABOVE, _LINES_BELOW = 32, 8  # that are not blank
_REACH = 1000  # characters of a line that are looked at, so that a line of megabytes costs no more


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
        around: Surroundings = NOWHERE,
    ) -> Suggestion:
        """The suggestion for the text ``lines`` (each with its line end) at ``cursor``.

        wanted: how to decode; where the text ends is known here. A cancelled one is as long as it got.
        """
        engine = self.engine
        place = place_of(lines, cursor)
        prompt, max_tokens = self._prompt(lines, cursor, wanted, around)
        stop_ids = (*engine.eos_ids, *self._format.stop_ids)
        params = replace(wanted, max_tokens=max_tokens + prompt.healed, stop_ids=stop_ids)
        typed = prompt.begins_with
        generation = engine.generate(prompt.ids, params, cancel, prompt.context, begins_with=typed)
        written = self._read(generation, place, typed, style_near(lines, cursor.line))
        cut = written.end is None and cancel.cancelled
        unfinished = cut or (written.end is None and len(written.ids) >= params.max_tokens)
        text = trim(written.text[: written.end], place, unfinished, went_on=written.end is not None)
        return Suggestion(
            text.replace("\n", line_end(lines, cursor.line)),
            written.tokens,
            written.origins,
            written.cycles,
            written.seconds,
            cut,
        )

    def read_ahead(
        self, lines: Sequence[str], cursor: Cursor, cancel: CancelToken, around: Surroundings = NOWHERE
    ) -> None:
        """Let the engine read the prompt that ``complete`` would give it, and no more."""
        prompt, _ = self._prompt(lines, cursor, USUAL, around)
        nothing = SamplingParams(max_tokens=0)
        for _ in self.engine.generate(prompt.ids, nothing, cancel=cancel, context_ids=prompt.context):
            pass

    def _prompt(
        self, lines: Sequence[str], cursor: Cursor, wanted: SamplingParams, around: Surroundings
    ) -> tuple[Prompt, int]:
        """The prompt, and how many tokens there is room for after it."""
        max_tokens = min(wanted.max_tokens, self.engine.max_context // 2)
        return self._format.build(lines, cursor, self.engine.max_context - max_tokens - 1, around), max_tokens

    def _read(self, generation: Iterable[Cycle], place: Place, typed: str, style: Style) -> _Written:
        """typed: what the model writes anew, which the user has typed already."""
        written = _Written(begun=not typed)
        for cycle in generation:
            shown = len(written.tokens)
            written.seconds += cycle.seconds
            for token, origin in zip(cycle.tokens, cycle.origins, strict=True):
                written.ids.append(token)
                text = _finished(self.engine.tokenizer.decode(written.ids))
                if not written.begun:
                    written.begun = text.startswith(typed)
                    if not written.begun and not typed.startswith(text):
                        written.end = 0  # a vocabulary that cannot write it
                        return written
                    if len(text) <= len(typed):
                        continue
                text = style.applied(text[len(typed) :], place.left)
                written.origins.append(origin)
                written.tokens.append(text[len(written.text) :])
                written.text = text
                written.end = end_of_suggestion(text, place)
                if written.end is not None:
                    break
            written.cycles += len(written.tokens) > shown
            if written.end is not None:
                break
        return written


@dataclass
class _Written:
    """What the model has written so far; ``end`` is where the suggestion ends, once that is known.

    begun: what was typed already is behind it. cycles: those that went beyond that.
    """

    begun: bool
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
        below=tuple(islice(_not_blank(lines, range(cursor.line + 1, len(lines))), _LINES_BELOW)),
        above=tuple(islice(_not_blank(lines, range(cursor.line - 1, -1, -1)), _LINES_ABOVE)),
    )


def _not_blank(lines: Sequence[str], numbers: range) -> Iterable[str]:
    return (without_line_end(lines[n][:_REACH]) for n in numbers if lines[n].strip())


def _finished(text: str) -> str:
    """``text`` with "\n" as its only line end, without a last character of which bytes are still to come."""
    return text.rstrip("\ufffd").replace("\r", "")
