"""A server of the OpenAI completions API on this machine whose text, or misconduct, is given beforehand."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "Qwen/Qwen2.5-Coder-7B"
PREFIX, SUFFIX, MIDDLE = "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"


class Handler(BaseHTTPRequestHandler):
    """``self.script`` is the ``Server``. Each method below is a way to answer."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    script: Server

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.script.paths.append(self.path)
        self.script.headers.append(dict(self.headers))
        self.json({"object": "list", "data": self.script.models}, 200 if self.script.models else 404)

    def do_POST(self) -> None:
        self.script.paths.append(self.path)
        self.script.headers.append(dict(self.headers))
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.asked.append(asked)
        try:
            self.script.answer(self, asked)
        except OSError:
            self.script.hung_up.set()
            self.close_connection = True

    def json(self, body: Any, status: int = 200, **headers: str) -> None:
        self.raw(json.dumps(body).encode(), "application/json", status, **headers)

    def raw(self, body: bytes, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def begin(self, kind: str = "text/event-stream; charset=utf-8") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, text: str, reason: str | None = None) -> None:
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
        self.chunk(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n")

    def end(self) -> None:
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def write(self, asked: dict[str, Any]) -> None:
        """What ``script.texts`` has for the end of the text before the cursor, a few characters at a time."""
        before, _ = parts(asked["prompt"])
        fitting = [end for end in self.script.texts if before.endswith(end)]
        text = self.script.texts[max(fitting, key=len)] if fitting else ""
        room = asked["max_tokens"]
        self.begin()
        for start in range(0, min(len(text), room), self.script.step):
            time.sleep(self.script.delay)
            self.event(text[start : min(start + self.script.step, room)])
        self.event("", "length" if len(text) > room else "stop")
        self.end()

    def until_gone(self) -> None:
        """Wait for the client to close the connection."""
        with contextlib.suppress(ConnectionError):
            while self.connection.recv(1000):
                pass
        self.script.hung_up.set()
        self.close_connection = True


def parts(prompt: str) -> tuple[str, str]:
    """The text before the cursor and the one behind it; the middle may have begun."""
    before, _, rest = prompt.partition(SUFFIX)
    suffix, _, middle = rest.partition(MIDDLE)
    return before.partition(PREFIX)[2] + middle, suffix


@dataclass
class Server:
    """texts: what is written, by the end of the text before the cursor. step: characters an event. delay:
    seconds before each. answer: how a request is answered. The rest is what came: paths, headers, requests.
    hung_up: set when the client had gone while it was answered."""

    texts: dict[str, str] = field(default_factory=dict)
    answer: Callable[[Handler, dict[str, Any]], None] = Handler.write
    step: int = 3
    delay: float = 0.0
    models: list[dict[str, Any]] = field(default_factory=lambda: [{"id": MODEL, "object": "model"}])
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    hung_up: threading.Event = field(default_factory=threading.Event)
    connections: int = 0
    url: str = ""

    @property
    def prompts(self) -> list[str]:
        return [one["prompt"] for one in self.asked]


@contextmanager
def serving(server: Server, port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """Serve it on a port of this machine, which the system chooses unless it is given."""

    class Bound(Handler):
        script = server

    class Counting(ThreadingHTTPServer):
        daemon_threads = True

        def process_request(self, *arguments: Any) -> None:
            server.connections += 1
            super().process_request(*arguments)

    http = Counting(("127.0.0.1", port), Bound)
    server.url = f"http://127.0.0.1:{http.server_port}/v1"
    if tls:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
        server.url = f"https://localhost:{http.server_port}/v1"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
