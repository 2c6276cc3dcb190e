"""The demo's language client: starts `draftline --stdio` and speaks with it as an editor does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls.lsp.client import LanguageClient

import lsp_server
from engine.errors import DraftlineError
from lsp_server.demo_places import DemoPlace
from lsp_server.documents import Cursor
from model_setup.command_line import draftline_version

T = TypeVar("T")
_PATIENCE = 300.0


class DemoSession:
    """One server. Its positions count characters: utf-32 is what it asks for."""

    def __init__(self, on_progress: Callable[[int], None]) -> None:
        self._client = LanguageClient("draftline demo", draftline_version())

        def create(params: types.WorkDoneProgressCreateParams) -> None:
            pass  # the token is fine

        def report(params: types.ProgressParams) -> None:
            if isinstance(params.value, dict) and "percentage" in params.value:
                on_progress(params.value["percentage"])

        self._client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)(create)
        self._client.feature(types.PROGRESS)(report)

    async def start(self, command: Sequence[str], repository: Path) -> Any:
        """Run Python with the arguments ``command``, and wait for the model; gives the server's status.

        Raises:
            DraftlineError: the model cannot be loaded.
        """
        environment = dict(os.environ)
        if "DRAFTLINE_HOME" in environment:
            environment["DRAFTLINE_HOME"] = str(Path(environment["DRAFTLINE_HOME"]).absolute())
        # There it finds this very package, and no module of the user's that is named like one of Python's.
        folder = Path(lsp_server.__file__).parents[1]
        await self._client.start_io(sys.executable, *command, cwd=folder, env=environment)
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf32]),
            window=types.WindowClientCapabilities(work_done_progress=True),
            text_document=types.TextDocumentClientCapabilities(
                inline_completion=types.InlineCompletionClientCapabilities()
            ),
        )
        params = types.InitializeParams(capabilities, process_id=os.getpid(), root_uri=repository.as_uri())
        params.initialization_options = {"enabled": True}
        await self._answer(self._client.initialize_async(params))
        self._client.initialized(types.InitializedParams())
        while (status := await self._request("draftline/status", {})).state == "loading":
            await asyncio.sleep(0.05)
        if status.state == "error":
            raise DraftlineError(status.message)
        return status

    def open(self, uri: str, place: DemoPlace) -> None:
        """Open the file, and take out what follows the cursor in an edit."""
        item = types.TextDocumentItem(uri, place.path.suffix.lstrip("."), 1, place.text)
        self._client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        taken_out = types.TextDocumentContentChangePartial(
            types.Range(_position(place.cursor), _position(place.end)), ""
        )
        document = types.VersionedTextDocumentIdentifier(2, uri)
        self._client.text_document_did_change(types.DidChangeTextDocumentParams(document, [taken_out]))

    def close(self, uri: str) -> None:
        document = types.TextDocumentIdentifier(uri)
        self._client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def complete(self, uri: str, cursor: Cursor, mode: str, max_tokens: int) -> Any:
        """A suggestion in full, for editors' requests have a time limit, and how it came about."""
        position = {"line": cursor.line, "character": cursor.character}
        document = {"textDocument": {"uri": uri}, "position": position}
        wanted = {"mode": mode, "maxTokens": max_tokens}
        if (answer := await self._request("draftline/complete", {**document, **wanted})) is None:
            raise DraftlineError(
                f"Your settings keep Draftline from suggesting in {uri}; see languages and exclude there."
            )
        return answer

    async def leave(self) -> None:
        """End the server, the polite way if it still answers."""
        try:
            await self._answer(self._client.shutdown_async(None))
            self._client.exit(None)
        except DraftlineError:
            if (process := self._client._server) is not None:
                with contextlib.suppress(ProcessLookupError):  # Ctrl-C reached it as well as us
                    process.kill()
        await self._client.stop()  # type: ignore[no-untyped-call]

    async def _request(self, method: str, params: Any) -> Any:
        return await self._answer(self._client.protocol.send_request_async(method, params))

    async def _answer(self, answer: Awaitable[T]) -> T:
        try:
            return await asyncio.wait_for(answer, _PATIENCE)
        except (asyncio.TimeoutError, RuntimeError, ConnectionError) as error:
            raise DraftlineError(
                "The language server does not answer; see its log file, and try the demo once more."
            ) from error


def _position(cursor: Cursor) -> types.Position:
    return types.Position(cursor.line, cursor.character)
