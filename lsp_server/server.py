"""The features of the language server, each a thin function over the modules beside this one."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from engine.errors import DraftlineError, OutOfMemory
from engine.host.remote import Left
from engine.host.spare import Spare
from lsp_server import configuration, inquiries
from lsp_server.asked import Asked
from lsp_server.completer import Completer
from lsp_server.completions import Completions
from lsp_server.context import ContextSource
from lsp_server.documents import Cursor, Document, Encoding, splice
from lsp_server.engine_thread import EngineThread
from lsp_server.exclusions import NO_MORE
from lsp_server.logs import log_file
from lsp_server.machine import Battery
from lsp_server.outcomes import Outcomes
from lsp_server.protocol import DraftlineProtocol
from lsp_server.settings import Settings
from lsp_server.settings_sources import Sources
from lsp_server.status import METHOD as STATUS
from lsp_server.status import status, tell_status
from lsp_server.suggestion import Suggestion
from model_setup.command_line import draftline_version

logger = logging.getLogger(__name__)

ACCEPTED = "draftline.accepted"  # the command that an editor runs when a suggestion was accepted
NO_ROOM = (
    "The GPU's memory is full, so Draftline goes on, more slowly, on the CPU; close what else uses the "
    "GPU and restart the editor to go back to it."
)


class Loader(Protocol):
    def __call__(self, settings: Settings, on_progress: Callable[[float], None]) -> Completer: ...


class DraftlineServer(LanguageServer):
    """What is open, what is chosen, and the engine's thread. Every method runs on the event loop's thread."""

    protocol: DraftlineProtocol

    def __init__(self, load: Loader, given: Mapping[str, Any] | None = None) -> None:
        """given: the settings that stand on the command line, by name."""
        super().__init__("draftline", draftline_version(), protocol_cls=DraftlineProtocol)
        self.sources = Sources(given or {})
        self.folder: str | None = None
        self.chosen = Settings()  # by the user
        self.instead: dict[str, Any] = {}  # of what was chosen, for want of memory
        self.settings = self.loaded = Settings()  # both together, and those of the model
        self.exclusions = NO_MORE
        self.battery = Battery()
        self.documents: dict[str, Document] = {}
        self.context = ContextSource(None)
        self.engine = EngineThread(self._load, lambda completer: completer.writer.close())
        self.completions = Completions(
            self.engine, self._failed, partial(configuration.wanted, self), partial(tell_status, self)
        )
        self.outcomes = Outcomes()
        self.spare: Spare | None = None  # while the model is unloaded
        self.loads = itertools.count()
        self.percent = 0  # of the model that are loaded
        self.tells_status = False
        self.told_status: dict[str, Any] = {}
        self._loader = load
        self._told: set[str] = set()
        for method, (feature, options) in FEATURES.items():
            self.feature(method, options)(feature)
        self.command(ACCEPTED)(accepted)

    def _load(self, on_progress: Callable[[float], None]) -> Completer:
        return self._loader(self.loaded, on_progress)

    def opened(self, uri: str, text: str, version: int, language: str) -> None:
        self.closed(uri)
        encoding: Encoding = types.PositionEncodingKind(self.server_capabilities.position_encoding).value
        self.documents[uri] = document = Document(text, version, encoding, language)
        self.context.opened(uri, document)

    def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Bring a document up to date. What is being generated for its old text is of no use any more."""
        uri = params.text_document.uri
        document = self.documents.get(uri)
        if document is None:
            logger.warning("a change to a document that is not open was ignored")
            return
        typed: Cursor | None = None  # the end of what was typed, where the next request is to be expected
        for change in params.content_changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                start, end = change.range.start, change.range.end
                first, last = sorted((self.cursor(uri, start), self.cursor(uri, end)))
                typed = document.edit((start.line, start.character), (end.line, end.character), change.text)
                self.context.edited(uri, first.line, last.line, typed.line)
            else:
                document.replace(change.text)
                self.context.replaced(uri)
                typed = None
        document.version = params.text_document.version
        self.outcomes.changed(uri, document.lines)
        self.completions.changed(uri, None if typed is None else partial(self.asked, uri, typed))

    def closed(self, uri: str) -> None:
        self.documents.pop(uri, None)
        self.context.closed(uri)
        self.completions.closed(uri)
        self.outcomes.closed(uri)

    def lost(self, uri: str | None) -> None:
        """A message about the document's text could not be read: no suggestion is better than a wrong one."""
        self.closed(uri or "")
        self.tell(
            "The editor sent a text that draftline cannot read; "
            "close the file and open it again to get suggestions there."
        )

    def cursor(self, uri: str, position: types.Position) -> Cursor:
        return self.documents[uri].cursor(position.line, position.character)

    def asked(self, uri: str, cursor: Cursor, invoked: bool = False, one: bool = False) -> Asked:
        """A request for a suggestion in the document as it is now."""
        lines = self.documents[uri].snapshot()
        return Asked(uri, lines, cursor, invoked, self.context.around(uri, lines, cursor), one)

    def range(self, uri: str, start: Cursor, end: Cursor) -> types.Range:
        document = self.documents[uri]
        return types.Range(
            types.Position(start.line, document.column(start)), types.Position(end.line, document.column(end))
        )

    def _failed(self, error: Exception) -> None:
        """A suggestion failed. The first time for lack of the GPU's memory, we move to the CPU."""
        if isinstance(error, Left):
            logger.info("a suggestion was under way when the host left")
        elif isinstance(error, OutOfMemory) and self._may_move_to_the_cpu():
            logger.warning("%s", error)
            self.tell(NO_ROOM, types.MessageType.Warning)
            self.instead = {"device": "cpu", "weights": "auto"}
            configuration.use(self, replace(self.chosen, **self.instead))
        elif isinstance(error, OutOfMemory) and self.engine.state == "loading":
            logger.warning("%s", error)  # it was asked for before we moved
        elif isinstance(error, DraftlineError):
            self.tell(str(error))
        else:
            logger.error("a suggestion failed", exc_info=error)
            self.tell("A suggestion failed because of an error in draftline; see its log file.")

    def _may_move_to_the_cpu(self) -> bool:
        worker = self.engine.worker
        return self.settings.device != "cpu" and not (worker and worker.writer.device == "cpu")

    @property
    def shutting_down(self) -> bool:
        return bool(self.protocol._shutdown)

    def tell(self, message: str, kind: types.MessageType = types.MessageType.Error) -> None:
        """Show a message to the user, once in this server's life."""
        if message not in self._told:
            self._told.add(message)
            self.window_show_message(types.ShowMessageParams(kind, message))

    def log_once(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            logger.warning("%s", message)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log it. pygls would show it to the user, and write the client's whole message to its own log."""
        logger.error("%s: %s", getattr(source, "__name__", source), type(error).__name__)


def initialize(ls: DraftlineServer, params: types.InitializeParams) -> None:
    configuration.learn(ls, params)


async def initialized(ls: DraftlineServer, params: types.InitializedParams) -> None:
    where = f"More is in the server's log, {log_file()}."
    ls.window_log_message(types.LogMessageParams(types.MessageType.Info, where))
    await configuration.begin(ls)


async def configuration_changed(ls: DraftlineServer, params: types.DidChangeConfigurationParams) -> None:
    await configuration.changed(ls, params)


async def inline_completion(
    ls: DraftlineServer, params: types.InlineCompletionParams
) -> types.InlineCompletionList:
    uri, selected = params.text_document.uri, params.context.selected_completion_info
    invoked = params.context.trigger_kind == types.InlineCompletionTriggerKind.Invoked
    configuration.look(ls, uri, invoked)
    if uri not in ls.documents:
        return types.InlineCompletionList([])
    start = end = ls.cursor(uri, params.position)
    asked, beginning = ls.asked(uri, end, invoked), ""
    if selected and (applied := _with_selected(ls, asked, selected)):
        asked, start, end = applied
        beginning = selected.text
    found = await ls.completions.suggest(asked)
    if not found:
        return types.InlineCompletionList([])
    texts = [beginning + suggestion.text for suggestion in found]
    replaced, command = ls.range(uri, start, end), _shown(ls, uri, start, end, texts)
    items = [types.InlineCompletionItem(text, range=replaced, command=command) for text in texts]
    return types.InlineCompletionList(items)


def _with_selected(
    ls: DraftlineServer, asked: Asked, selected: types.SelectedCompletionInfo
) -> tuple[Asked, Cursor, Cursor] | None:
    """The request as if the popup's selected item had been taken, and from where to where that stands.

    None if the item spans lines, as snippets do.
    """
    start, end = ls.cursor(asked.uri, selected.range.start), ls.cursor(asked.uri, selected.range.end)
    if not start.line == end.line == asked.cursor.line or "\n" in selected.text:
        return None
    lines = list(asked.lines)
    cursor = splice(lines, start, end, selected.text)
    return replace(asked, lines=lines, cursor=cursor), start, end


async def completion(ls: DraftlineServer, params: types.CompletionParams) -> types.CompletionList:
    """The same for clients that know no inline completion: one item in their popup."""
    uri, kind = params.text_document.uri, params.context and params.context.trigger_kind
    # Clients say "invoked" of the first request that typing causes as well.
    invoked = kind == types.CompletionTriggerKind.Invoked and ls.completions.rested(uri)
    configuration.look(ls, uri, invoked)
    if uri not in ls.documents:
        return types.CompletionList(is_incomplete=True, items=[])
    cursor = ls.cursor(uri, params.position)
    found = await ls.completions.suggest(ls.asked(uri, cursor, invoked, one=True))
    items = [_item(ls, uri, cursor, suggestion) for suggestion in found[:1]]
    return types.CompletionList(is_incomplete=True, items=items)


def _item(ls: DraftlineServer, uri: str, cursor: Cursor, suggestion: Suggestion) -> types.CompletionItem:
    left = ls.documents[uri].lines[cursor.line][: cursor.character]
    start = replace(cursor, character=len(re.sub(r"\w+$", "", left)))
    text = left[start.character :] + suggestion.text  # clients show only what begins with the word there
    return types.CompletionItem(
        label=text.strip().splitlines()[0],
        kind=types.CompletionItemKind.Text,
        detail="Draftline",
        insert_text_format=types.InsertTextFormat.PlainText,
        insert_text_mode=types.InsertTextMode.AsIs,
        text_edit=types.TextEdit(ls.range(uri, start, cursor), text),
        command=_shown(ls, uri, cursor, cursor, [suggestion.text]),
    )


def _shown(ls: DraftlineServer, uri: str, start: Cursor, end: Cursor, texts: list[str]) -> types.Command:
    """Note that these are shown; gives the command by which the editor tells that one was accepted."""
    number = ls.outcomes.show(uri, ls.documents[uri].lines, start, end, texts)
    return types.Command(title="Suggestion accepted", command=ACCEPTED, arguments=[number])


def accepted(ls: DraftlineServer, number: int) -> None:
    ls.outcomes.accepted(number)


FEATURES: dict[str, tuple[Callable[..., Any], Any]] = {
    types.INITIALIZE: (initialize, None),
    types.INITIALIZED: (initialized, None),
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: (configuration_changed, None),
    types.TEXT_DOCUMENT_INLINE_COMPLETION: (inline_completion, types.InlineCompletionOptions()),
    types.TEXT_DOCUMENT_COMPLETION: (completion, types.CompletionOptions()),
    STATUS: (status, None),
    "draftline/origins": (inquiries.origins, None),
    "draftline/complete": (inquiries.complete, None),
}
