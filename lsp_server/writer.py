"""What writes the middle of a text, behind one face: the engine on this machine, or a server elsewhere.

A `Writer` knows how its model is asked. What it gives is text alone, token by token, so all that judges the
text (`completer`) is the same for every writer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from engine.request import CancelToken, Origin, SamplingParams
from lsp_server.documents import Cursor
from lsp_server.pacing import seconds_left
from lsp_server.prompt import Prompt, PromptFormat
from lsp_server.prompt_head import Surroundings
from lsp_server.reading import Reading

if TYPE_CHECKING:
    from engine.face import EngineFace

_READING = 0.6  # of the time that there is; the rest is for writing
_LEAST_PREFIX = 160  # tokens; below that there is little to go by
_EXPECTED_TOKENS = 64  # of a request that has not come yet; the prompt is the same for any that fits


@dataclass(frozen=True)
class Step:
    """What came at once: a cycle of the engine's, or an event of a server's.

    texts: of each token, "" for one that ends inside a character, whose text comes with the next. origins:
    the stage that first proposed each. seconds: how long it took, the prompt's reading not counted. full: no
    more than this was asked for, so the text may end anywhere.
    """

    texts: Sequence[str]
    origins: Sequence[Origin]
    seconds: float
    full: bool = False


@dataclass(frozen=True)
class Writing:
    """typed: what the steps' text begins with, the characters left of the cursor that are written anew.

    steps: closed as soon as no more of them are wanted; they end when the request is cancelled. short: the
    writer was shown less than it could take, for lack of time.
    """

    typed: str
    steps: Generator[Step, None, None]
    short: bool = False


class Writer(Protocol):
    """Used from one thread. ``notice``: what the user should know once, "" for nothing. ``goes_to``: the
    host that the text is sent to, "" if it stays on this machine."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def weights(self) -> str: ...
    @property
    def load_seconds(self) -> float: ...
    @property
    def notice(self) -> str: ...
    @property
    def goes_to(self) -> str: ...

    def write(
        self,
        lines: Sequence[str],
        cursor: Cursor,
        wanted: SamplingParams,
        cancel: CancelToken,
        around: Surroundings,
    ) -> Writing:
        """What belongs at ``cursor`` in ``lines`` (each with its line end), decoded as ``wanted``.

        Raises, here or in a step:
            DraftlineError: it cannot be had, and why.
        """
        ...

    def read_ahead(
        self, lines: Sequence[str], cursor: Cursor, cancel: CancelToken, around: Surroundings
    ) -> None:
        """Get ready for ``write`` with the same text, if that costs nobody else anything."""
        ...

    def close(self) -> None:
        """It is given up: end what connections it has."""
        ...


class EngineWriter:
    """The engine on this machine."""

    goes_to = ""

    def __init__(self, engine: EngineFace) -> None:
        """Raises DraftlineError if prompts for this model cannot be written."""
        self.engine = engine
        self._format = PromptFormat(engine.tokenizer, engine.name)
        self._reading = Reading(engine.reading_seconds)
        self._displaced = 0

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def device(self) -> str:
        return self.engine.device

    @property
    def weights(self) -> str:
        return self.engine.weights

    @property
    def load_seconds(self) -> float:
        return self.engine.load_seconds

    @property
    def notice(self) -> str:
        return self.engine.notice

    def write(
        self,
        lines: Sequence[str],
        cursor: Cursor,
        wanted: SamplingParams,
        cancel: CancelToken,
        around: Surroundings,
    ) -> Writing:
        max_tokens = min(wanted.max_tokens, self.engine.max_context // 2)
        prompt, short = self._prompt(lines, cursor, max_tokens, cancel, around)
        stop_ids = (*self.engine.eos_ids, *self._format.stop_ids)
        params = replace(wanted, max_tokens=max_tokens + prompt.healed, stop_ids=stop_ids)
        return Writing(prompt.begins_with, self._steps(prompt, params, cancel), short)

    def read_ahead(
        self, lines: Sequence[str], cursor: Cursor, cancel: CancelToken, around: Surroundings
    ) -> None:
        max_tokens = min(_EXPECTED_TOKENS, self.engine.max_context // 2)
        prompt, _ = self._prompt(lines, cursor, max_tokens, cancel, around)
        nothing = SamplingParams(max_tokens=0)
        self._reading.begins(prompt.ids)
        for _ in self.engine.generate(prompt.ids, nothing, cancel=cancel, context_ids=prompt.context):
            pass
        self._reading_ends(whole=not cancel.cancelled)

    def _prompt(
        self, lines: Sequence[str], cursor: Cursor, max_tokens: int, cancel: CancelToken, around: Surroundings
    ) -> tuple[Prompt, bool]:
        """The longest prompt that can be read in good time, and whether that is a shortened one."""
        if self._displaced != self.engine.displaced:
            self._reading.forget()
        room = self.engine.max_context - max_tokens - 1
        patience = _READING * seconds_left(cancel)
        whole = self._format.build(lines, cursor, room, around)
        prompt, seconds = whole, self._reading.seconds(whole.ids)
        shorter = around
        while seconds > patience and shorter.budget.prefix > _LEAST_PREFIX:
            shorter = replace(shorter, snippets=(), budget=shorter.budget.shorter())
            other = self._format.build(lines, cursor, room, shorter)
            if (takes := self._reading.seconds(other.ids)) < seconds:
                prompt, seconds = other, takes
        return prompt, prompt is not whole

    def _steps(
        self, prompt: Prompt, params: SamplingParams, cancel: CancelToken
    ) -> Generator[Step, None, None]:
        ids: list[int] = []
        written = ""
        cycles = self.engine.generate(
            prompt.ids, params, cancel, prompt.context, begins_with=prompt.begins_with
        )
        self._reading.begins(prompt.ids)
        try:
            for cycle in cycles:
                self._reading_ends(whole=True)
                texts = []
                for token in cycle.tokens:
                    ids.append(token)
                    # the last character's other bytes may be still to come
                    text = self.engine.tokenizer.decode(ids).rstrip("\ufffd")
                    texts.append(text[len(written) :])
                    written = text
                yield Step(texts, cycle.origins, cycle.seconds, full=len(ids) >= params.max_tokens)
        finally:
            self._reading_ends(whole=not cancel.cancelled)

    def _reading_ends(self, whole: bool) -> None:
        self._reading.ends(whole)
        self._displaced = self.engine.displaced

    def close(self) -> None:
        """Nothing: who loads anew has hung up on the host already."""
