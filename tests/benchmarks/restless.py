"""An editor whose user does anything at random: types, pastes, deletes, asks, cancels, accepts, closes.

What it believes its texts to be is worked out here anew, not with the server's own code: columns are UTF-16,
lines end at ``\\n``, ``\\r\\n`` and ``\\r``.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp_server.session import Session, inline_params

READY = ("ready", "working")  # states in which a window has a model
PATIENCE = 60.0  # seconds after which a request counts as not answered
CANCELLED = types.LSPErrorCodes.RequestCancelled
_LINE_END = re.compile(r"\r\n|\r|\n")
_TYPED = ["é", "漢字", "😀", "\t", "\r\n", "\n", "\r", "(", ")", '"', "\u2028", "\f"]


class Text:
    """A text, and the places in it as the protocol names them."""

    def __init__(self, whole: str) -> None:
        self.whole = whole

    def place(self, rng: random.Random) -> int:
        return self.nearest(rng.randint(0, len(self.whole)))

    def nearest(self, offset: int) -> int:
        """There, but not inside a line end."""
        offset = min(offset, len(self.whole))
        return offset + (self.whole[max(0, offset - 1) : offset + 1] == "\r\n")

    def position(self, offset: int) -> types.Position:
        ends = [end.end() for end in _LINE_END.finditer(self.whole, 0, offset)]
        column = self.whole[ends[-1] if ends else 0 : offset]
        return types.Position(len(ends), len(column.encode("utf-16-le", "surrogatepass")) // 2)

    def edit(self, start: int, end: int, new: str) -> types.TextDocumentContentChangePartial:
        """Put ``new`` in place of what lies between two offsets; gives that as the protocol says it."""
        span = types.Range(self.position(start), self.position(end))
        self.whole = self.whole[:start] + new + self.whole[end:]
        return types.TextDocumentContentChangePartial(span, new)


@dataclass
class Diary:
    """What came of it. wrong: what should not be, in words. told: when the user was told what, with times of
    ``time.monotonic``. suggested: when there was a suggestion. without: the seconds of each time in which a
    window had no model."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    suggested: list[float] = field(default_factory=list)
    without: list[float] = field(default_factory=list)


class Restless:
    """One window. ``texts``, by URI, outlive its server. state: what the server said last of how it is."""

    state = "loading"

    def __init__(self, it: Session, texts: dict[str, Text], rng: random.Random, diary: Diary) -> None:
        self._it = it
        self._texts = texts
        self._rng = rng
        self._diary = diary
        self._pending: set[asyncio.Task[list[types.InlineCompletionItem]]] = set()
        self._without: float | None = time.monotonic()  # since when there is no model
        for uri in texts:
            self._open(uri)
        self._uri = rng.choice(list(texts))
        self._cursor = self._text.place(rng)

    @property
    def _text(self) -> Text:
        return self._texts[self._uri]

    async def act(self) -> None:
        """Do one thing or another."""
        roll = self._rng.random()
        if roll < 0.45:
            await self._type()
        elif roll < 0.60:
            self._change_some(self._rng.randint(1, 4))
        elif roll < 0.62:
            self._replace()
        elif roll < 0.66:
            self._close()
            self._open(self._uri)
        elif roll < 0.75:
            self._uri = self._rng.choice(list(self._texts))
            self._cursor = self._text.place(self._rng)
        await self._ask()
        if self._rng.random() < 0.1:
            await self.compare(self._uri)
        self._listen()

    async def settle(self) -> None:
        """Wait for all that was asked, and compare every text."""
        await asyncio.gather(*self._pending)
        for uri in self._texts:
            await self.compare(uri)
        self._listen()
        self._waited()

    def abandon(self) -> None:
        """The server is dead: nobody waits for its answers."""
        self._listen()
        self._waited()
        for task in self._pending:
            task.cancel()
        self._diary.counts["lost with a server that was killed"] += len(self._pending)

    async def compare(self, uri: str) -> None:
        """The server's text with ours."""
        found = await self._it.request("benchmark/text", {"uri": uri})
        self._diary.counts["texts compared"] += 1
        if found != self._texts[uri].whole:
            self._diary.wrong.append(f"{uri} is another text in the server")

    async def _type(self) -> None:
        for _ in range(self._rng.randint(1, 5)):
            letter = self._rng.choice([*"etaoin_ .=", *_TYPED])
            self._insert(letter)
            if self._rng.random() < 0.5:
                self._begin()  # and type on before there is an answer
            await asyncio.sleep(self._rng.choice([0.0, 0.01, 0.05]))

    def _change_some(self, count: int) -> None:
        changes = []
        for _ in range(count):
            start = self._text.place(self._rng)
            end = self._text.nearest(start + self._rng.choice([0, 0, 1, 20, 300]))
            other = self._rng.choice(list(self._texts.values())).whole
            cut = self._rng.randrange(len(other) + 1)
            new = other[cut : cut + self._rng.choice([0, 5, 40, 200])]
            changes.append(self._text.edit(start, end, new))
            self._cursor = self._text.nearest(start + len(new))
        self._send(*changes)

    def _replace(self) -> None:
        """All of the text at once, as some editors do; it also keeps texts from growing."""
        self._text.whole = self._text.whole[-6000:] + "\n"
        self._cursor = self._text.place(self._rng)
        self._send(types.TextDocumentContentChangeWholeDocument(self._text.whole))

    async def _ask(self) -> None:
        roll = self._rng.random()
        task = self._begin(cancel=self._rng.choice([0.0, 0.02, 0.2]) if roll < 0.15 else None)
        if roll > 0.3:
            found = await task
            if found and roll > 0.8:
                await self._accept(found[0])

    async def _accept(self, item: types.InlineCompletionItem) -> None:
        self._insert(str(item.insert_text))
        assert item.command is not None
        told = types.ExecuteCommandParams(item.command.command, item.command.arguments)
        await asyncio.wait_for(self._it.client.workspace_execute_command_async(told), PATIENCE)
        self._diary.counts["accepted"] += 1

    def _insert(self, new: str) -> None:
        self._send(self._text.edit(self._cursor, self._cursor, new))
        self._cursor = self._text.nearest(self._cursor + len(new))

    def _begin(self, cancel: float | None = None) -> asyncio.Task[list[types.InlineCompletionItem]]:
        position = self._text.position(self._cursor)
        task = asyncio.create_task(self._answered(position, cancel))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    async def _answered(
        self, position: types.Position, cancel: float | None
    ) -> list[types.InlineCompletionItem]:
        counts, protocol = self._diary.counts, self._it.client.protocol
        counts["requests"] += 1
        params = inline_params(position.line, position.character, self._uri, invoked=self._rng.random() < 0.1)
        number = str(uuid.uuid4())
        answer = asyncio.wrap_future(
            protocol.send_request("textDocument/inlineCompletion", params, msg_id=number)
        )
        if cancel is not None:
            asyncio.get_running_loop().call_later(
                cancel, protocol.notify, "$/cancelRequest", types.CancelParams(number)
            )
        try:
            items: list[Any] = (await asyncio.wait_for(answer, PATIENCE)).items
        except asyncio.TimeoutError:
            self._diary.wrong.append("a request was not answered")
            return []
        except JsonRpcException as error:
            counts["answers: cancelled"] += 1
            if cancel is None or error.code != CANCELLED:
                self._diary.wrong.append(f"a request was refused: {error}")
            return []
        counts["answers: suggestions" if items else "answers: nothing"] += 1
        if items:
            self._diary.suggested.append(time.monotonic())
        if any(item.range != types.Range(position, position) or not item.insert_text for item in items):
            self._diary.wrong.append("a suggestion was for another place, or empty")
        return items

    def _open(self, uri: str) -> None:
        self._it.open(self._texts[uri].whole, uri)

    def _close(self) -> None:
        document = types.TextDocumentIdentifier(self._uri)
        self._it.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    def _send(self, *changes: types.TextDocumentContentChangeEvent) -> None:
        self._it.version += 1
        document = types.VersionedTextDocumentIdentifier(uri=self._uri, version=self._it.version)
        self._it.client.text_document_did_change(types.DidChangeTextDocumentParams(document, list(changes)))

    def _waited(self) -> None:
        """Note how long there was no model, if there was none until now."""
        if self._without is not None:
            self._diary.without.append(time.monotonic() - self._without)
            self._without = None

    def _listen(self) -> None:
        """Note what the user was told since the last time: messages, and a status that is an error."""
        errors = [status["message"] for status in self._it.statuses if status["state"] == "error"]
        if self._it.statuses:
            self.state = self._it.statuses[-1]["state"]
            if self.state in READY:
                self._waited()
            elif self._without is None:
                self._without = time.monotonic()
        said = [*self._it.messages, *errors]
        self._it.messages.clear()
        self._it.statuses.clear()
        self._diary.told += [(time.monotonic(), message) for message in said]
