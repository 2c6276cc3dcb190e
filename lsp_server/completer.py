"""What happens on the engine's thread: from the text and the cursor to the suggestion.

Who writes, the engine here or a server, is `writer`'s business; what becomes of the text is the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from engine.request import CancelToken, Origin, SamplingParams
from lsp_server.documents import Cursor, without_line_end
from lsp_server.indentation import Style, style_near
from lsp_server.prompt_head import NOWHERE, Surroundings
from lsp_server.stopping import Place, end_of_suggestion
from lsp_server.suggestion import Suggestion
from lsp_server.trimming import line_end, trim
from lsp_server.writer import Writer, Writing

MAX_TOKENS = 64
USUAL = SamplingParams(MAX_TOKENS)
_LINES_ABOVE, _LINES_BELOW = 32, 8  # that are not blank
_REACH = 1000  # characters of a line that are looked at, so that a line of megabytes costs no more


class Completer:
    """Asks one writer for suggestions."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

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
        place = place_of(lines, cursor)
        writing = self.writer.write(lines, cursor, wanted, cancel, around)
        with closing(writing.steps):
            written = _read(writing, place, style_near(lines, cursor.line))
        cut = written.end is None and cancel.cancelled
        unfinished = cut or (written.end is None and written.full)
        text = trim(written.text[: written.end], place, unfinished, went_on=written.end is not None)
        return Suggestion(
            text.replace("\n", line_end(lines, cursor.line)),
            written.tokens,
            written.origins,
            written.cycles,
            written.seconds,
            cut,
            writing.short,
        )

    def read_ahead(
        self, lines: Sequence[str], cursor: Cursor, cancel: CancelToken, around: Surroundings = NOWHERE
    ) -> None:
        """Let the writer read the prompt that ``complete`` would give it, and no more."""
        self.writer.read_ahead(lines, cursor, cancel, around)


@dataclass
class _Written:
    """What the model has written so far; ``end`` is where the suggestion ends, once that is known.

    begun: what was typed already is behind it. cycles: those that went beyond that. full: as much was written
    as was asked for.
    """

    begun: bool
    tokens: list[str] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    cycles: int = 0
    seconds: float = 0.0
    text: str = ""
    full: bool = False
    end: int | None = None


def _read(writing: Writing, place: Place, style: Style) -> _Written:
    typed, whole = writing.typed, ""
    written = _Written(begun=not typed)
    for step in writing.steps:
        shown = len(written.tokens)
        # asked once for all tokens of a step: a text's end stays where it is, whatever is written after it
        so_far = whole + "".join(step.texts).replace("\r", "")
        ends = end_of_suggestion(style.applied(so_far[len(typed) :], place.left), place) is not None
        written.seconds += step.seconds
        written.full = step.full
        for token, origin in zip(step.texts, step.origins, strict=True):
            whole += token.replace("\r", "")
            if not written.begun:
                written.begun = whole.startswith(typed)
                if not written.begun and not typed.startswith(whole):
                    written.end = 0  # a vocabulary that cannot write it
                    return written
                if len(whole) <= len(typed):
                    continue
            text = style.applied(whole[len(typed) :], place.left)
            written.origins.append(origin)
            written.tokens.append(text[len(written.text) :])
            written.text = text
            written.end = end_of_suggestion(text, place) if ends else None
            if written.end is not None:
                break
        written.cycles += len(written.tokens) > shown
        if written.end is not None:
            break
    return written


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
