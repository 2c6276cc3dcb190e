"""The client's side of the OpenAI completions API, as vLLM, llama.cpp and others serve it.

Everything happens on the caller's thread, which drives an event loop of its own while it waits: so a request
can be given up at any point, and its connection's end is what tells the server. What the server sends is data
of bounded size. The key goes to the named host alone, as redirections are not followed, and into no message.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx
import truststore

from engine.errors import DraftlineError
from engine.request import CancelToken
from lsp_server.event_stream import BadEventError, EventStream
from lsp_server.server_errors import ServerError, broken, no_model, no_stream, refused, too_slow, unreachable

CONNECT_SECONDS = 1.5  # so that a host that is not there is told of while a suggestion is still awaited
FIRST_SECONDS = 20.0  # from the request to the first text: the server may have others before us
BETWEEN_SECONDS = 5.0
WHOLE_SECONDS = 60.0
MOST_BYTES = 1_000_000  # of an answer
_POLL_SECONDS = 0.02  # how often a request looks whether it is cancelled
_REST_SECONDS = (
    0.05  # for the end of an answer of which all text is there, so that the connection can be kept
)
_LONGEST_NAME = 100
_NO_MODEL = (400, 404, 422)  # what servers answer that do not have the model, among other things
_HERE = ("localhost", "127.0.0.1", "::1")

T = TypeVar("T")


@dataclass(frozen=True)
class Event:
    """Some text, usually a token's. reason: why there is no more, "" if there may be."""

    text: str
    reason: str = ""


@dataclass(frozen=True)
class OfferedModel:
    """name: as it is asked for. context: tokens of prompt and output together, None if it does not say.
    owner: which is what serves it, in many servers."""

    name: str
    context: int | None
    owner: str = ""


def host_of(url: str) -> str:
    """The host and port in ``url``, without a name and password."""
    return urlsplit(url).netloc.rpartition("@")[2]


class CompletionsApi:
    """One server. Use it from one thread."""

    def __init__(self, url: str, key: str | None) -> None:
        """url: as OpenAI's clients take it; "/v1" is added to a bare host.

        Raises:
            DraftlineError: the address or the system's proxy cannot be used, or the key is none or would go
                over the network unencrypted.
        """
        parts = urlsplit(url)
        here = parts.hostname in _HERE
        self.host = host_of(url)
        base = f"{parts.scheme}://{self.host}/{parts.path.strip('/') or 'v1'}"
        headers = {"Accept-Encoding": "identity", "User-Agent": "draftline"}
        if key is not None:
            if not here and parts.scheme != "https":
                raise DraftlineError(
                    f"The key for {self.host} would go over the network unencrypted; give server_url as "
                    "https, or take the key away."
                )
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise DraftlineError(
                    f"The key for {self.host} has characters that no key has; copy it anew, without its "
                    "line end."
                )
            headers["Authorization"] = f"Bearer {key}"
        try:
            self._client = httpx.AsyncClient(
                base_url=base,
                headers=headers,
                verify=truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                trust_env=not here,  # the user's proxy, which need not know this machine
            )
        except (httpx.InvalidURL, ImportError, ValueError):
            raise DraftlineError(
                "The address in server_url, or that of the proxy in the environment, cannot be used; mend "
                "it, as in https://host:8000/v1."
            ) from None
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.run_until_complete(self._client.aclose())
        self._loop.close()

    def stream(self, asked: Mapping[str, Any], cancel: CancelToken) -> Generator[Event, None, None]:
        """What the server writes for the completion ``asked``, until it ends or is cancelled.

        Closing the generator closes the connection, unless the answer has come to its end.

        Raises:
            ServerError: it cannot be had.
        """
        arrived: deque[Event] = deque()
        news = asyncio.Event()

        async def receive() -> None:
            try:
                async for event in self._events({**asked, "stream": True}):
                    arrived.append(event)
                    news.set()
            finally:
                news.set()

        task = self._loop.create_task(receive())
        is_whole = False
        try:
            while not cancel.cancelled:
                if arrived:
                    event = arrived.popleft()
                    is_whole = bool(event.reason)
                    yield event
                    if is_whole:
                        return
                elif task.done():
                    task.result()
                    return
                else:
                    news.clear()
                    self._loop.run_until_complete(_soon(news))
        finally:
            if is_whole:
                self._loop.run_until_complete(asyncio.wait({task}, timeout=_REST_SECONDS))
            task.cancel()
            self._loop.run_until_complete(asyncio.wait({task}))
            if not task.cancelled():
                task.exception()  # nobody waits for it any more

    def models(self) -> list[OfferedModel]:
        """What the server offers; nothing if it does not list it.

        Raises:
            ServerError: there is no such server, or it wants a key.
        """
        return self._loop.run_until_complete(self._models())

    async def _events(self, asked: Mapping[str, Any]) -> AsyncIterator[Event]:
        started = time.monotonic()
        response = await self._answer(asked)
        try:
            if response.status_code != 200:
                raise await self._refusal(response, str(asked["model"]))
            if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
                raise no_stream(self.host)
            stream, size, is_whole = EventStream(), 0, False
            end = started + FIRST_SECONDS
            chunks = response.aiter_raw()
            while (received := await self._in_time(_next(chunks), end)) is not None:
                size += len(received)
                if size > MOST_BYTES:
                    raise BadEventError
                for data in stream.feed(received):
                    if is_whole or (event := _event(data)) is None:
                        continue
                    if event.reason == "error":
                        raise broken(self.host)
                    is_whole = bool(event.reason)
                    if event.text:
                        end = min(time.monotonic() + BETWEEN_SECONDS, started + WHOLE_SECONDS)
                    yield event
            if not is_whole:
                raise broken(self.host)
        except BadEventError:
            raise no_stream(self.host) from None
        except httpx.HTTPError as error:
            raise broken(self.host) from error
        finally:
            await response.aclose()

    async def _answer(self, asked: Mapping[str, Any]) -> httpx.Response:
        """The beginning of the answer. A connection that was kept may have ended meanwhile, so what breaks
        before any of it came is tried once more: a completion changes nothing on the server."""
        end = time.monotonic() + FIRST_SECONDS
        for is_last in (False, True):
            request = self._client.build_request("POST", "/completions", json=asked)
            try:
                return await self._in_time(self._client.send(request, stream=True), end)
            except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                if is_last:
                    raise broken(self.host) from error
            except httpx.HTTPError as error:
                raise unreachable(self.host, error) from error
        raise AssertionError

    async def _models(self) -> list[OfferedModel]:
        request = self._client.build_request("GET", "/models")
        end = time.monotonic() + CONNECT_SECONDS + BETWEEN_SECONDS
        try:
            response = await self._in_time(self._client.send(request, stream=True), end)
            try:
                if response.status_code in (401, 403):
                    raise refused(self.host, response.status_code, "")
                body, chunks = b"", response.aiter_raw()
                while (received := await self._in_time(_next(chunks), end)) is not None:
                    body += received
                    if len(body) > MOST_BYTES:
                        return []
            finally:
                await response.aclose()
        except httpx.HTTPError as error:
            raise unreachable(self.host, error) from error
        return _offered(body)

    async def _refusal(self, response: httpx.Response, model: str) -> ServerError:
        """What a status other than 200 means; ``model`` is what was asked for."""
        status = response.status_code
        offered: list[str] = []
        if status in _NO_MODEL:
            with contextlib.suppress(ServerError):
                offered = [one.name for one in await self._models()]
        if offered and model not in offered:
            return no_model(self.host, model, offered)
        return refused(self.host, status, response.headers.get("retry-after", ""))

    async def _in_time(self, work: Coroutine[Any, Any, T], end: float) -> T:
        try:
            with anyio.fail_after(max(0.0, end - time.monotonic())):
                return await work
        except TimeoutError:
            raise too_slow(self.host) from None


async def _soon(news: asyncio.Event) -> None:
    with anyio.move_on_after(_POLL_SECONDS):
        await news.wait()


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


def _event(data: str) -> Event | None:
    """What one event says; None for one without a choice, like the count of tokens at the end.

    Raises:
        BadEventError: nothing that can be understood.
    """
    if data == "[DONE]":
        return Event("", "stop")
    try:
        said = json.loads(data)
        if "error" in said:
            return Event("", "error")
        choices = said["choices"]
        text, reason = (choices[0]["text"], choices[0].get("finish_reason") or "") if choices else ("", "")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise BadEventError from None
    if not isinstance(text, str) or not isinstance(reason, str):
        raise BadEventError
    text = text.encode("utf-8", "replace").decode("utf-8")  # JSON can say half a surrogate pair
    return Event(text, reason) if text or reason else None


def _offered(body: bytes) -> list[OfferedModel]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return []
    listed = said.get("data") if isinstance(said, dict) else None
    models = []
    for model in listed if isinstance(listed, list) else ():
        name = model.get("id") if isinstance(model, dict) else None
        if isinstance(name, str) and name.isprintable() and len(name) <= _LONGEST_NAME:
            context, owner = model.get("max_model_len"), str(model.get("owned_by", ""))
            models.append(
                OfferedModel(name, context if type(context) is int and context > 0 else None, owner)
            )
    return models
