"""An editor for the latency figures: documents, edits, and requests under the stopwatch."""

from __future__ import annotations

import asyncio
import contextlib
import sysconfig
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from lsp_server.documents import without_line_end
from tests.lsp_server.session import Session

LINES = 400
LARGE_LINES, LARGE_BYTES = 16_000, 1_300_000
MOMENT = 0.25  # seconds: longer than the server waits for the next character


def library_texts() -> list[str]:
    """The first lines of the larger files of the standard library, some hundred texts."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py"))]
    lines = [text.splitlines(keepends=True) for text in texts if "\f" not in text]
    return ["".join(some[:LINES]) for some in lines if len(some) >= LINES]


def large(text: str) -> str:
    """``text`` in the middle of a file of LARGE_LINES lines and about LARGE_BYTES bytes."""
    around = LARGE_LINES - text.count("\n")
    width = (LARGE_BYTES - len(text)) // around - 1
    filler = [f"total_{n:05} = add(total_{n - 1:05}, {n})".ljust(width, "#") + "\n" for n in range(around)]
    return "".join([*filler[: around // 2], text, *filler[around // 2 :]])


@dataclass(frozen=True)
class Asked:
    """text: of the first suggestion, or "". sent, received: client's times. engine: seconds of the engine
    in between."""

    text: str
    sent: float
    received: float
    engine: float

    @property
    def seconds(self) -> float:
        return self.received - self.sent

    @property
    def besides(self) -> float:
        return self.seconds - self.engine


class Editor:
    """One open document and its server."""

    def __init__(self, it: Session, uri: str, text: str) -> None:
        self.it = it
        self.uri = uri
        self.lines = text.splitlines(keepends=True)
        it.open(text, uri)

    def close(self) -> None:
        document = types.TextDocumentIdentifier(self.uri)
        self.it.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def places(self, count: int) -> list[tuple[int, int]]:
        """(line, column) in the middle of so many lines with code, those about the file's middle."""
        middle = len(self.lines) // 2
        rows = [row for row in range(middle - LINES // 2, middle + LINES // 2) if len(self._code(row)) > 8]
        nearest = sorted(rows, key=lambda row: abs(row - middle))[:count]
        return [
            (row, self.lines[row].index(self._code(row)) + len(self._code(row)) // 2)
            for row in sorted(nearest)
        ]

    def _code(self, row: int) -> str:
        return self.lines[row].strip()

    def type(self, row: int, column: int, text: str) -> None:
        self.it.edit((row, column), (row, column), text, self.uri)

    @contextlib.asynccontextmanager
    async def cut(self, row: int, column: int) -> AsyncIterator[None]:
        """The document without the rest of the line; afterwards as it was, and nothing under way."""
        line = without_line_end(self.lines[row])
        self.it.edit((row, column), (row, len(line)), "", self.uri)
        try:
            yield
        finally:
            self.it.edit((row, 0), (row + 1, 0), self.lines[row], self.uri)
            await idle(self.it)

    async def ask(self, row: int, column: int, sent: float | None = None) -> Asked:
        sent = sent or time.perf_counter()
        items = await self.it.inline(row, column, self.uri)
        received = time.perf_counter()
        passes = (await work(self.it, sent)).passes
        spent = sum(max(0.0, min(end, received) - max(start, sent)) for start, end in passes)
        return Asked(str(items[0].insert_text) if items else "", sent, received, spent)


async def work(it: Session, since: float) -> Any:
    return await it.request("benchmark/work", {"since": since})


async def idle(it: Session) -> None:
    """Wait until the engine has had nothing to do for a moment."""
    while True:
        since = time.perf_counter()
        await asyncio.sleep(MOMENT)
        if not (await work(it, since)).generations:
            return
