"""The features of the language server, each a thin function over the modules beside this one.

Besides the protocol's own there are three requests, for `draftline demo` and for editors:

- ``draftline/status`` gives ``{state, message, model, device, weights, loadSeconds}``; state is ``new``,
  ``loading``, ``ready`` or ``failed``, and message says why it failed.
- ``draftline/origins`` takes ``{textDocument: {uri}}`` and gives the document's last suggestion as
  ``{text, tokens, origins, cycles, seconds, tokensPerCycle, tokensPerSecond}``, or null if there was none:
  the tokens' texts, and for each the stage that proposed it.
- ``draftline/complete`` takes ``{textDocument, position, mode?, maxTokens?}`` and gives the same for a
  suggestion made now, in mode ``plain`` or ``staged``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from engine.errors import DraftlineError
from engine.request import SamplingParams
from lsp_server.completer import MAX_TOKENS, USUAL, Completer
from lsp_server.documents import Cursor, Document, Encoding
from lsp_server.engine_thread import EngineThread
from lsp_server.protocol import DraftlineProtocol
from lsp_server.settings import Settings
from lsp_server.suggestion import Suggestion
from model_setup.command_line import draftline_version

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Loader(Protocol):
    def __call__(self, settings: Settings, on_progress: Callable[[float], None]) -> Completer: ...


class DraftlineServer(LanguageServer):
    """What is open, what is chosen, and the engine's thread. Every method runs on the event loop's thread."""

    protocol: DraftlineProtocol

    def __init__(self, load: Loader, settings: Settings | None = None) -> None:
        super().__init__("draftline", draftline_version(), protocol_cls=DraftlineProtocol)
        self.settings = settings or Settings()
        self.settings_error: DraftlineError | None = None
        self.documents: dict[str, Document] = {}
        self.last: dict[str, Suggestion] = {}
        self.engine = EngineThread(self._load)
        self._loader = load
        self._told: set[str] = set()
        for method, (feature, options) in FEATURES.items():
            self.feature(method, options)(feature)

    def _load(self, on_progress: Callable[[float], None]) -> Completer:
        if self.settings_error:
            raise self.settings_error
        return self._loader(self.settings, on_progress)

    def opened(self, uri: str, text: str, version: int) -> None:
        self.engine.cancel(uri)
        encoding: Encoding = types.PositionEncodingKind(self.server_capabilities.position_encoding).value
        self.documents[uri] = Document(text, version, encoding)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Bring a document up to date. What is being generated for its old text is of no use any more."""
        document = self.documents.get(params.text_document.uri)
        if document is None:
            logger.warning("a change to a document that is not open was ignored")
            return
        self.engine.cancel(params.text_document.uri)
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                document.edit((start.line, start.character), (end.line, end.character), change.text)
            else:
                document.replace(change.text)
        document.version = params.text_document.version

    def closed(self, uri: str) -> None:
        self.engine.cancel(uri)
        self.documents.pop(uri, None)
        self.last.pop(uri, None)

    def lost(self, uri: str | None) -> None:
        """A message about the document's text could not be read: no suggestion is better than a wrong one."""
        self.closed(uri or "")
        self.tell(
            "The editor sent a text that draftline cannot read; "
            "close the file and open it again to get suggestions there."
        )

    async def suggest(
        self,
        uri: str,
        lines: Sequence[str],
        cursor: Cursor,
        wanted: SamplingParams = USUAL,
    ) -> Suggestion | None:
        """A suggestion for ``lines`` at ``cursor``; None without a model yet, or if outdated meanwhile."""
        if self.engine.state != "ready":
            return None
        job = self.engine.submit(uri, lambda c, cancel: c.complete(lines, cursor, cancel, wanted))
        try:
            suggestion = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel.cancel()
            raise
        except DraftlineError as error:
            self.tell(str(error))
            return None
        except Exception:
            logger.exception("a suggestion failed")
            self.tell("A suggestion failed because of an error in draftline; see its log file.")
            return None
        if suggestion is None or job.cancel.cancelled:
            return None
        logger.info(
            "%d tokens, %d cycles, %.3f s", len(suggestion.tokens), suggestion.cycles, suggestion.seconds
        )
        self.last[uri] = suggestion
        return suggestion

    @property
    def shutting_down(self) -> bool:
        return bool(self.protocol._shutdown)

    def tell(self, message: str) -> None:
        """Show a message to the user, once in this server's life."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, message))

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log it. pygls would show it to the user, and write the client's whole message to its own log."""
        logger.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)


def initialize(ls: DraftlineServer, params: types.InitializeParams) -> None:
    folders = [folder.uri for folder in params.workspace_folders or []]
    folder = next((path for uri in [*folders, params.root_uri] if uri and (path := to_fs_path(uri))), None)
    options = params.initialization_options
    try:
        ls.settings = ls.settings.updated({"repository": ls.settings.repository or folder})
        ls.settings = ls.settings.updated(options if isinstance(options, dict) else {})
    except DraftlineError as error:
        ls.settings_error = error


async def initialized(ls: DraftlineServer, params: types.InitializedParams) -> None:
    """Load the model, and show how far it has come where the client can."""
    loop = asyncio.get_running_loop()
    fractions: asyncio.Queue[float | None] = asyncio.Queue()

    def loaded() -> None:
        logger.info("the model is %s %s", ls.engine.state, ls.engine.failure)
        if ls.engine.failure:
            ls.tell(ls.engine.failure)
        fractions.put_nowait(None)

    if ls.engine.state != "new":
        return
    ls.engine.start(
        on_progress=lambda fraction: _call(loop, fractions.put_nowait, fraction),
        on_loaded=lambda: _call(loop, loaded),
    )
    window = ls.client_capabilities.window
    if not (window and window.work_done_progress):
        return
    token = "draftline/load"
    progress = ls.work_done_progress
    try:
        await progress.create_async(token)
    except Exception:
        return  # the client would rather not
    progress.begin(token, types.WorkDoneProgressBegin(title="Loading the completion model", percentage=0))
    shown = 0
    while (fraction := await fractions.get()) is not None:
        if (percentage := min(100, int(fraction * 100))) > shown:
            shown = percentage
            progress.report(token, types.WorkDoneProgressReport(percentage=shown))
    progress.end(token, types.WorkDoneProgressEnd(message=ls.engine.failure or "ready"))


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *arguments: object) -> None:
    """Call it on the loop's thread, unless the loop has ended meanwhile."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        logger.info("the model was still being loaded when the client left")


async def inline_completion(
    ls: DraftlineServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList:
    uri, selected = params.text_document.uri, params.context.selected_completion_info
    document = ls.documents.get(uri)
    if document is None:
        return types.InlineCompletionList([])
    lines, cursor = document.snapshot(), _cursor(document, params.position)
    start = end = cursor
    beginning = ""
    if selected and (applied := _with_selected(document, cursor, selected)):
        lines, cursor, start, end = applied
        beginning = selected.text
    replaced = types.Range(_position(document, start), _position(document, end))
    suggestion = await ls.suggest(uri, lines, cursor)
    if suggestion is None or not suggestion.text:
        return types.InlineCompletionList([])
    return types.InlineCompletionList(
        [types.InlineCompletionItem(beginning + suggestion.text, range=replaced)]
    )


def _with_selected(
    document: Document, cursor: Cursor, selected: types.SelectedCompletionInfo
) -> tuple[list[str], Cursor, Cursor, Cursor] | None:
    """The text as if the popup's selected item had been taken, the cursor after it, what the item replaces.

    None if the item spans lines, as snippets do.
    """
    start, end = _cursor(document, selected.range.start), _cursor(document, selected.range.end)
    if not start.line == end.line == cursor.line or "\n" in selected.text:
        return None
    lines = list(document.snapshot())
    line = lines[cursor.line]
    lines[cursor.line] = line[: start.character] + selected.text + line[end.character :]
    return lines, Cursor(cursor.line, start.character + len(selected.text)), start, end


async def completion(ls: DraftlineServer, params: types.CompletionParams) -> types.CompletionList:
    """The same for clients that know no inline completion: one item in their popup."""
    document = ls.documents.get(params.text_document.uri)
    if document is None:
        return types.CompletionList(is_incomplete=True, items=[])
    cursor = _cursor(document, params.position)
    position = _position(document, cursor)
    suggestion = await ls.suggest(params.text_document.uri, document.snapshot(), cursor)
    if suggestion is None or not suggestion.text:
        return types.CompletionList(is_incomplete=True, items=[])
    item = types.CompletionItem(
        label=suggestion.text.strip().splitlines()[0],
        kind=types.CompletionItemKind.Text,
        detail="Draftline",
        insert_text_format=types.InsertTextFormat.PlainText,
        text_edit=types.TextEdit(types.Range(position, position), suggestion.text),
    )
    return types.CompletionList(is_incomplete=True, items=[item])


def status(ls: DraftlineServer, params: Any) -> dict[str, Any]:
    answer: dict[str, Any] = {"state": ls.engine.state, "message": ls.engine.failure}
    if ls.engine.worker is not None:
        engine = ls.engine.worker.engine
        answer |= {"model": engine.name, "device": engine.device, "weights": engine.weights}
        answer |= {"loadSeconds": engine.load_seconds}
    return answer


def origins(ls: DraftlineServer, params: Any) -> dict[str, Any] | None:
    uri = _asked(lambda: str(params.textDocument.uri))
    return _figures(ls.last.get(uri))


async def complete(ls: DraftlineServer, params: Any) -> dict[str, Any] | None:
    uri = _asked(lambda: str(params.textDocument.uri))
    position = _asked(lambda: types.Position(params.position.line, params.position.character))
    mode: Any = getattr(params, "mode", "staged")
    max_tokens = getattr(params, "maxTokens", MAX_TOKENS)
    if mode not in ("plain", "staged") or not isinstance(max_tokens, int) or max_tokens < 1:
        raise JsonRpcInvalidParams("mode is plain or staged, and maxTokens is a positive number.")
    document = ls.documents.get(uri)
    if document is None:
        return None
    cursor = _cursor(document, position)
    wanted = SamplingParams(max_tokens, mode=mode)
    return _figures(await ls.suggest(uri, document.snapshot(), cursor, wanted))


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
        "tokens": suggestion.tokens,
        "origins": suggestion.origins,
        "cycles": suggestion.cycles,
        "seconds": suggestion.seconds,
        "tokensPerCycle": suggestion.tokens_per_cycle,
        "tokensPerSecond": suggestion.tokens_per_second,
    }


def _cursor(document: Document, position: types.Position) -> Cursor:
    return document.cursor(position.line, position.character)


def _position(document: Document, cursor: Cursor) -> types.Position:
    return types.Position(cursor.line, document.column(cursor))


FEATURES: dict[str, tuple[Callable[..., Any], Any]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: (inline_completion, types.InlineCompletionOptions()),
    types.TEXT_DOCUMENT_COMPLETION: (completion, types.CompletionOptions()),
    "draftline/status": (status, None),
    "draftline/origins": (origins, None),
    "draftline/complete": (complete, None),
}
