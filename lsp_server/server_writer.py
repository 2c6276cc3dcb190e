"""A team's server writes instead of the engine here: any that speaks the OpenAI completions API.

What the user sets, for themselves and never by a project's file: ``backend = "openai"``; ``server_url``,
like ``https://host:8000/v1``; ``server_model``, the model's name there; and, where that name does not tell
it, ``server_family``, one of `text_prompt.SERVED`, by which prompts are written. The key, if the server wants
one, comes from the environment or the keyring, see `server_key`.

Like the engine, a server is asked without what may be half a token, and that its text begin with that, if it
takes such a constraint (`constraints`). Where it writes something else, it is asked again with that in the
prompt.
Prompts are not read ahead, as others wait for the same server. After a failure it is left alone for a while,
in which every request fails alike.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from engine.errors import DraftlineError
from engine.request import CancelToken, SamplingParams
from lsp_server.completions_api import CompletionsApi, host_of
from lsp_server.constraints import beginning_with
from lsp_server.documents import Cursor
from lsp_server.prompt import PromptFormat
from lsp_server.prompt_head import Surroundings
from lsp_server.server_errors import ServerError, no_model, too_slow
from lsp_server.server_key import server_key
from lsp_server.text_prompt import ServedFamily, TextPieces, served_family
from lsp_server.writer import Step, Writing

_MOST_CONTEXT = 32_768  # tokens, where the server does not tell how many it takes
_LONGEST_TOKEN = 16  # characters on average; a longer text is more than was asked for
_FIRST_REST, _LONGEST_REST = 1.0, 30.0  # seconds without a request after a failure, doubled with each
_LONGEST_WISH = 300.0  # seconds without a request that a server may wish for
_SLOW_SECONDS = 1.5  # without any text, in a request that was then given up
_MOST_SLOW = 3  # of those in a row; then the user is told

logger = logging.getLogger(__name__)


def connect(url: str | None, model: str | None, family: str | None = None) -> ServerWriter:
    """A writer by the model of that name at ``url``. A server that is down now may be up when it is asked.

    Raises:
        DraftlineError: one of them is missing or unknown, or the key cannot be sent there.
    """
    if url is None or model is None:
        missing = "server_url" if url is None else "server_model"
        raise DraftlineError(f'The backend "openai" needs {missing}; set it, or take the backend "local".')
    served = served_family(model, family)
    return ServerWriter(CompletionsApi(url, server_key(host_of(url))), model, served)


class ServerWriter:
    """One model of one server."""

    device, weights = "server", ""

    def __init__(self, api: CompletionsApi, model: str, served: ServedFamily) -> None:
        started = time.monotonic()
        self.name = model
        self.goes_to = api.host
        self.notice = ""
        self._api = api
        self._pieces = TextPieces(served)
        self._format = PromptFormat(self._pieces, model)
        self._context = _MOST_CONTEXT
        self._owner = ""
        self._failure = ""
        self._rests_until, self._rest_seconds = 0.0, _FIRST_REST
        self._slow = 0
        self._look()
        self.load_seconds = time.monotonic() - started

    def close(self) -> None:
        self._api.close()

    def write(
        self,
        lines: Sequence[str],
        cursor: Cursor,
        wanted: SamplingParams,
        cancel: CancelToken,
        around: Surroundings,
    ) -> Writing:
        params = replace(wanted, max_tokens=min(wanted.max_tokens, self._context // 2))
        prompt = self._format.build(lines, cursor, self._context - params.max_tokens - 1, around)
        healing = replace(params, max_tokens=params.max_tokens + prompt.healed)
        return Writing(
            prompt.begins_with, self._beginning_with(prompt.begins_with, prompt.ids, params, healing, cancel)
        )

    def read_ahead(
        self, lines: Sequence[str], cursor: Cursor, cancel: CancelToken, around: Surroundings
    ) -> None:
        pass

    def _look(self) -> None:
        """See how many tokens the server takes, and what it is; what is wrong with it is for ``notice``."""
        try:
            models = {model.name: model for model in self._api.models()}
        except ServerError as error:
            self.notice = str(error)
            return
        if self.name in models:
            self._context = min(models[self.name].context or _MOST_CONTEXT, _MOST_CONTEXT)
            self._owner = models[self.name].owner
        elif models:
            self.notice = str(no_model(self.goes_to, self.name, list(models)))

    def _beginning_with(
        self,
        typed: str,
        prompt: list[int],
        params: SamplingParams,
        healing: SamplingParams,
        cancel: CancelToken,
    ) -> Generator[Step, None, None]:
        """Steps whose text begins with ``typed``, which does not stand in the prompt."""
        written = ""
        constraint = beginning_with(typed, self._owner) if typed else {}
        with closing(self._ask(prompt, healing, cancel, constraint)) as steps:
            for step in steps:
                if len(written) < len(typed):
                    longer = written + "".join(step.texts)
                    if not (longer.startswith(typed) or typed.startswith(longer)):
                        break
                    written = longer
                yield step
        if len(written) < len(typed) and not cancel.cancelled:
            yield Step([typed[len(written) :]], ["oracle"], 0.0)
            yield from self._ask([*prompt, *self._pieces.encode(typed)], params, cancel)

    def _ask(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken,
        constraint: Mapping[str, Any] = MappingProxyType({}),
    ) -> Generator[Step, None, None]:
        """A step for each event, while the server is not left alone."""
        if time.monotonic() < self._rests_until:
            raise ServerError(self._failure)
        asked = {
            "model": self.name,
            "prompt": self._pieces.spell(prompt),
            "max_tokens": params.max_tokens,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "seed": params.seed,
            "stop": self._pieces.ends,
            **constraint,
        }
        room = params.max_tokens * _LONGEST_TOKEN
        began = time.monotonic()
        before = None
        try:
            with closing(self._api.stream(asked, cancel)) as events:
                for event in events:
                    now = time.monotonic()
                    seconds = 0.0 if before is None else now - before
                    if before is None:
                        self._answered()
                    before = now
                    texts = [event.text[:room]] if event.text else []
                    room -= len(event.text)
                    yield Step(texts, ["oracle"] * len(texts), seconds, event.reason == "length" or room <= 0)
                    if room <= 0:
                        return
        except ServerError as error:
            if constraint and error.status == 400:
                self._owner = ""  # it takes no such constraint after all
                return
            self._rest(error)
            raise
        if before is None and cancel.cancelled and time.monotonic() - began > _SLOW_SECONDS:
            self._slow += 1
            if self._slow == _MOST_SLOW:
                raise too_slow(self.goes_to)

    def _rest(self, error: ServerError) -> None:
        self._failure = str(error)
        self._rests_until = time.monotonic() + max(self._rest_seconds, min(error.retry_after, _LONGEST_WISH))
        self._rest_seconds = min(2 * self._rest_seconds, _LONGEST_REST)
        logger.warning("%s", error)

    def _answered(self) -> None:
        if self._failure:
            logger.info("the server answers again")
        self._failure, self._rest_seconds, self._slow = "", _FIRST_REST, 0
