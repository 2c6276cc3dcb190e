"""A request for a suggestion, and what the model gives for it: one suggestion, several if the user asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.request import CancelToken, SamplingParams
from lsp_server.cache import Known
from lsp_server.completer import Completer
from lsp_server.documents import Cursor, splice
from lsp_server.prompt_head import NOWHERE, Surroundings
from lsp_server.suggestion import Suggestion

ALTERNATIVES = 3
_MOST_TRIED = 5  # for alternatives
_FREEDOM = 0.6  # the temperature of alternatives, at least


@dataclass(frozen=True)
class Asked:
    """A request. lines: the text, each with its line end. invoked: the user asked, not merely typed. one: the
    likeliest suggestion alone can be shown."""

    uri: str
    lines: Sequence[str]
    cursor: Cursor
    invoked: bool = False
    around: Surroundings = NOWHERE
    one: bool = False

    @property
    def several(self) -> bool:
        """Whether alternatives are wanted."""
        return self.invoked and not self.one

    def accepting(self, text: str) -> Asked:
        """The same request after ``text`` has come in at the cursor."""
        lines = list(self.lines)
        cursor = splice(lines, self.cursor, self.cursor, text)
        return replace(self, lines=lines, cursor=cursor, invoked=False)


def written(
    completer: Completer, asked: Asked, first: Suggestion | None, cancel: CancelToken, usual: SamplingParams
) -> Known:
    """What the model gives; several if they are wanted, as far as time allows. ``first`` is known already."""
    found = [first or written_once(completer, asked, cancel, usual)]
    freely = replace(usual, temperature=max(usual.temperature, _FREEDOM), top_p=0.95)
    for number in range(1, _MOST_TRIED + 1) if asked.several else ():
        if len(found) == ALTERNATIVES or cancel.cancelled:
            break
        other = written_once(completer, asked, cancel, replace(freely, seed=usual.seed + number))
        if other.text and other.text not in [one.text for one in found]:
            found.append(other)
    return Known(tuple(found), several=asked.several and not cancel.cancelled)


def written_once(
    completer: Completer, asked: Asked, cancel: CancelToken, wanted: SamplingParams
) -> Suggestion:
    return completer.complete(asked.lines, asked.cursor, cancel, wanted, asked.around)
