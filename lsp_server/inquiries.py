"""Requests beside the protocol's own, for `draftline demo` and for editors.

- ``draftline/origins`` takes ``{textDocument: {uri}}`` and gives the document's last suggestion as
  ``{text, tokens, origins, cycles, seconds, tokensPerCycle, tokensPerSecond}``, or null if there was none:
  the tokens' texts, and for each the stage that proposed it.
- ``draftline/complete`` takes ``{textDocument, position, mode?, maxTokens?}`` and gives the same for a
  suggestion made now, in mode ``plain`` or ``staged``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from engine.request import SamplingParams
from lsp_server.completer import MAX_TOKENS
from lsp_server.suggestion import Suggestion

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

T = TypeVar("T")


def origins(ls: DraftlineServer, params: Any) -> dict[str, Any] | None:
    uri = _asked(lambda: str(params.textDocument.uri))
    return _figures(ls.completions.last.get(uri))


async def complete(ls: DraftlineServer, params: Any) -> dict[str, Any] | None:
    uri = _asked(lambda: str(params.textDocument.uri))
    position = _asked(lambda: types.Position(params.position.line, params.position.character))
    mode: Any = getattr(params, "mode", "staged")
    max_tokens = getattr(params, "maxTokens", MAX_TOKENS)
    if mode not in ("plain", "staged") or not isinstance(max_tokens, int) or max_tokens < 1:
        raise JsonRpcInvalidParams("mode is plain or staged, and maxTokens is a positive number.")
    if uri not in ls.documents:
        return None
    wanted = SamplingParams(max_tokens, mode=mode)
    return _figures(await ls.completions.write(ls.asked(uri, ls.cursor(uri, position)), wanted))


def _asked(read: Callable[[], T]) -> T:
    try:
        return read()
    except (AttributeError, TypeError, ValueError) as error:
        raise JsonRpcInvalidParams("textDocument.uri or position is missing or wrong.") from error


def _figures(suggestion: Suggestion | None) -> dict[str, Any] | None:
    if suggestion is None:
        return None
    return {
        "text": suggestion.text,
        "tokens": list(suggestion.tokens),
        "origins": list(suggestion.origins),
        "cycles": suggestion.cycles,
        "seconds": suggestion.seconds,
        "tokensPerCycle": suggestion.tokens_per_cycle,
        "tokensPerSecond": suggestion.tokens_per_second,
    }
