"""A real client's session with the real server, a child process over stdio."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.client import LanguageClient

ROOT = Path(__file__).parents[2]
NOT_ASKED = object()  # a client that cannot be asked for what is set
PATIENCE = 300.0  # seconds after which a test gives up; a busy machine may need many


class Session:
    """One document at most at a time; positions are the caller's business."""

    def __init__(self) -> None:
        self.client = LanguageClient("test", "1")
        self.messages: list[str] = []
        self.logged: list[str] = []
        self.progress: list[Any] = []
        self.statuses: list[dict[str, Any]] = []
        self.configuration: Any = None  # what the client says is set
        self.asked = 0  # times that it was asked for that
        self.registered: list[str] = []
        self.initialized: types.InitializeResult
        self.version = 0

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def show(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

        @self.client.feature(types.WINDOW_LOG_MESSAGE)
        def log(params: types.LogMessageParams) -> None:
            self.logged.append(params.message)

        @self.client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def create(params: types.WorkDoneProgressCreateParams) -> None:
            return None

        @self.client.feature(types.WORKSPACE_CONFIGURATION)
        def configuration(params: types.ConfigurationParams) -> list[Any]:
            self.asked += 1
            return [self.configuration for item in params.items if item.section == "draftline"]

        @self.client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered += [one.method for one in params.registrations]

        @self.client.feature("draftline/status")
        def status(params: Any) -> None:
            self.statuses.append(params._asdict())

        @self.client.feature(types.PROGRESS)
        def report(params: types.ProgressParams) -> None:
            self.progress.append(params.value)

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self.client._server is not None
        return self.client._server

    async def start(
        self,
        command: list[str],
        home: Path,
        encodings: list[str] | None,
        options: Any,
        progress: bool,
        inline: bool,
        folder: Path | None,
        environment: dict[str, str],
        can_be_asked: bool,
    ) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "DRAFTLINE_HOME": str(home), **environment}
        await self.client.start_io(sys.executable, *command, env=environment)
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(position_encodings=encodings),
            window=types.WindowClientCapabilities(work_done_progress=progress),
            workspace=types.WorkspaceClientCapabilities(
                configuration=can_be_asked,
                did_change_configuration=types.DidChangeConfigurationClientCapabilities(can_be_asked),
            ),
            text_document=types.TextDocumentClientCapabilities(
                inline_completion=types.InlineCompletionClientCapabilities() if inline else None
            ),
        )
        root = folder.as_uri() if folder else None
        params = types.InitializeParams(capabilities, root_uri=root, initialization_options=options)
        self.initialized = await self.client.initialize_async(params)
        self.client.initialized(types.InitializedParams())

    async def ready(self) -> dict[str, Any]:
        """Wait until loading has ended, well or not, and give the server's status."""
        while (status := await self.request("draftline/status", {})).state == "loading":
            await asyncio.sleep(0.02)
        return status._asdict()

    def set(self, **configuration: Any) -> None:
        """Say that something is set, as a client does that can be asked."""
        self.configuration = configuration
        self.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(None))

    async def request(self, method: str, params: Any) -> Any:
        return await asyncio.wait_for(self.client.protocol.send_request_async(method, params), PATIENCE)

    def open(self, text: str, uri: str = "file:///t.py") -> None:
        item = types.TextDocumentItem(uri, "python", self.version, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def edit(
        self, start: tuple[int, int], end: tuple[int, int], text: str, uri: str = "file:///t.py"
    ) -> None:
        self.version += 1
        change = types.TextDocumentContentChangePartial(
            types.Range(types.Position(*start), types.Position(*end)), text
        )
        document = types.VersionedTextDocumentIdentifier(uri=uri, version=self.version)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    async def inline(
        self,
        line: int,
        column: int,
        uri: str = "file:///t.py",
        selected: types.SelectedCompletionInfo | None = None,
        invoked: bool = False,
    ) -> list[types.InlineCompletionItem]:
        params = inline_params(line, column, uri, selected, invoked)
        answer = await asyncio.wait_for(
            self.client.text_document_inline_completion_async(params),
            PATIENCE,
        )
        assert isinstance(answer, types.InlineCompletionList)
        return list(answer.items)

    async def leave(self) -> int:
        """Say shutdown and exit as an editor does; the server's exit code."""
        await asyncio.wait_for(self.client.shutdown_async(None), PATIENCE)
        self.client.exit(None)
        return await asyncio.wait_for(self.process.wait(), PATIENCE)


def inline_params(
    line: int,
    column: int,
    uri: str = "file:///t.py",
    selected: types.SelectedCompletionInfo | None = None,
    invoked: bool = False,
) -> types.InlineCompletionParams:
    kinds = types.InlineCompletionTriggerKind
    context = types.InlineCompletionContext(kinds.Invoked if invoked else kinds.Automatic, selected)
    return types.InlineCompletionParams(
        context, types.TextDocumentIdentifier(uri), types.Position(line, column)
    )


@asynccontextmanager
async def session(
    home: Path,
    answers: dict[str, str | list[str]] | None = None,
    *,
    delay: float = 0.0,
    load: str = "ok",
    notice: str = "",
    device: str = "cpu",
    encodings: list[str] | None = None,
    options: Any = None,
    progress: bool = False,
    inline: bool = True,
    wait: bool = True,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
    configuration: Any = NOT_ASKED,
    battery: bool = False,
    command: list[str] | None = None,
) -> AsyncIterator[Session]:
    """A session with the scripted server, see ``scripted_server``, or with what ``command`` starts.

    configuration: what the client says is set when it is asked, if it can be. battery: whether the machine
    runs on one. The process has ended when it is left.
    """
    script = {"answers": answers or {}, "delay": delay, "load": load, "notice": notice}
    script |= {"battery": battery, "device": device}
    script["log"] = str(home / "generations")
    command = command or ["-m", "tests.lsp_server.scripted_server", json.dumps(script)]
    it = Session()
    it.configuration = None if configuration is NOT_ASKED else configuration
    can_be_asked = configuration is not NOT_ASKED
    await it.start(
        command, home, encodings, options, progress, inline, folder, environment or {}, can_be_asked
    )
    try:
        if wait:
            await it.ready()
        yield it
    finally:
        if it.process.returncode is None:
            it.process.kill()
            await it.process.wait()
        await it.client.stop()


def live(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """An async test as pytest calls it."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


def generations(home: Path) -> list[int]:
    """The number of tokens of each generation that has ended."""
    log = home / "generations"
    return [int(line) for line in log.read_text("utf-8").splitlines()] if log.exists() else []


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.01)
