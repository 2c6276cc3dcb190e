"""The client of the completions API against a server on this machine, well-behaved or not."""

from __future__ import annotations

import itertools
import logging
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from engine.errors import DraftlineError
from engine.request import CancelToken
from lsp_server import completions_api
from lsp_server.completions_api import CompletionsApi, Event, OfferedModel
from lsp_server.server_errors import ServerError
from tests.lsp_server.completions_server import MODEL, Handler, Server, serving

ASKED = {"model": MODEL, "prompt": "<|fim_prefix|>x = <|fim_suffix|><|fim_middle|>", "max_tokens": 64}
KEY = "sk-secret-1234"
TEXT = "foo(a) + bar"


@pytest.fixture
def ask():
    """Ask the server at an address for its events, all of them."""
    made = []

    def asking(url, cancel=None, key=None):
        api = CompletionsApi(url, key)
        made.append(api)
        return list(api.stream(ASKED, cancel or CancelToken()))

    yield asking
    for api in made:
        api.close()


def text_of(events):
    return "".join(event.text for event in events)


def test_a_text_comes_as_it_is_written(ask):
    with serving(Server({"x = ": TEXT})) as server:
        events = ask(server.url)
    assert events == [Event("foo"), Event("(a)"), Event(" + "), Event("bar"), Event("", "stop")]
    assert server.asked == [{**ASKED, "stream": True}]


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_the_address_may_be_given_with_or_without_its_usual_path(ask, path):
    with serving(Server({"x = ": TEXT})) as server:
        assert text_of(ask(server.url.removesuffix("/v1") + path)) == TEXT
    assert server.paths == ["/v1/completions"]


def test_a_key_goes_where_it_belongs(ask, caplog):
    caplog.set_level(logging.DEBUG)
    with serving(Server()) as server:
        ask(server.url, key=KEY)
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text


def test_without_a_key_none_is_sent(ask):
    with serving(Server()) as server:
        ask(server.url.replace("http://", "http://name:password@"))
    assert "Authorization" not in server.headers[0]


def test_a_key_is_not_sent_over_a_network_unencrypted():
    with pytest.raises(DraftlineError, match=r"team\.example:8000 .* unencrypted") as caught:
        CompletionsApi("http://team.example:8000/v1", KEY)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY} x", "schlüssel"])
def test_what_cannot_be_a_key_is_said_without_showing_it(key):
    with pytest.raises(DraftlineError, match="characters that no key has") as caught:
        CompletionsApi("https://team.example/v1", key)
    assert key.strip() not in str(caught.value)


def test_a_redirection_is_not_followed(ask):
    with serving(Server()) as other:

        def elsewhere(handler, asked):
            handler.json({}, 307, Location=other.url + "/completions")

        with serving(Server(answer=elsewhere)) as server, pytest.raises(ServerError, match="another place"):
            ask(server.url, key=KEY)
    assert other.paths == []


def test_an_address_that_is_none():
    with pytest.raises(DraftlineError, match="server_url"):
        CompletionsApi("https://\u2028x/v1", None)


def test_a_proxy_that_cannot_be_used_is_not_quoted(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "gopher://name:password@proxy")
    with pytest.raises(DraftlineError, match="proxy") as caught:
        CompletionsApi("https://team.example", None)
    assert "password" not in str(caught.value)


def test_nothing_is_waited_for_behind_the_last_text(ask):
    ended = threading.Event()

    def lingering(handler, asked):
        handler.begin()
        handler.event("foo", "stop")
        ended.wait(30)

    with serving(Server(answer=lingering)) as server:
        assert ask(server.url) == [Event("foo", "stop")]
        ended.set()


def test_a_connection_is_used_again():
    with serving(Server({"x = ": TEXT})) as server:
        api = CompletionsApi(server.url, None)
        for _ in range(3):
            assert text_of(api.stream(ASKED, CancelToken())) == TEXT
        api.close()
    assert server.connections == 1


def test_closing_the_events_closes_the_connection():
    with serving(Server({"x = ": TEXT * 1000}, delay=0.01)) as server:
        api = CompletionsApi(server.url, None)
        events = api.stream({**ASKED, "max_tokens": 10_000}, CancelToken())
        assert next(events).text == "foo"
        events.close()
        assert server.hung_up.wait(30)
        api.close()


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in mid-answer"])
def test_cancelling_closes_the_connection(begun):
    cancel = CancelToken()

    def silent(handler, asked):
        if begun:
            handler.begin()
            handler.event("foo")
        else:
            cancel.cancel()
        handler.until_gone()

    with serving(Server(answer=silent)) as server:
        api = CompletionsApi(server.url, None)
        events = api.stream(ASKED, cancel)
        if begun:
            assert next(events).text == "foo"
            cancel.cancel()
        assert list(events) == []
        assert server.hung_up.wait(30)
        api.close()


def test_a_cancelled_request_is_not_sent(ask):
    cancel = CancelToken()
    cancel.cancel()
    with serving(Server()) as server:
        assert ask(server.url, cancel) == []
    assert server.asked == []


def answering(*answers):
    """Each request gets the next of ``answers``, which a handler gives."""
    left = iter(answers)
    return lambda handler, asked: next(left)(handler, asked)


def test_what_broke_off_before_anything_came_is_tried_once_more(ask):
    with serving(Server({"x = ": TEXT}, answering(hang_up, Handler.write))) as server:
        assert text_of(ask(server.url)) == TEXT
    assert len(server.asked) == 2


def test_but_not_for_ever(ask):
    with serving(Server(answer=hang_up)) as server, pytest.raises(ServerError, match="broke off"):
        ask(server.url)
    assert len(server.asked) == 2


def test_nor_where_something_has_come(ask):
    def half(handler, asked):
        handler.begin()
        handler.event("foo")
        handler.close_connection = True

    with serving(Server(answer=half)) as server, pytest.raises(ServerError, match="broke off"):
        ask(server.url)
    assert len(server.asked) == 1


def hang_up(handler, asked):
    handler.close_connection = True


def streaming(*chunks, kind="text/event-stream", ended=True):
    def answer(handler, asked):
        handler.begin(kind)
        for data in chunks:
            handler.chunk(data)
        if ended:
            handler.chunk(b"")

    return answer


def endless(data):
    def answer(handler, asked):
        handler.begin()
        while True:
            handler.chunk(data)

    return answer


def refusing(status, **headers):
    return lambda handler, asked: handler.json(
        {"error": {"message": f"{asked['prompt']}"}}, status, **headers
    )


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (refusing(400), "refuses .*400"),
        (refusing(401), "does not take the key .*401"),
        (refusing(403), "does not take the key .*403"),
        (refusing(404), "no completions at that address"),
        (refusing(429), "too much to do .*429"),
        (refusing(500), "failed .*500"),
        (refusing(503), "too much to do .*503"),
        (streaming(b"<html>", kind="text/html"), "no stream of completions"),
        (lambda handler, asked: handler.json({"choices": [{"text": "a"}]}), "no stream of completions"),
        (streaming(b"data: {nonsense\n\n"), "no stream of completions"),
        (streaming(b"data: " + b"[" * 60_000 + b"\n\n"), "no stream of completions"),
        (streaming(b'data: {"choices": [{"text": 7}]}\n\n'), "no stream of completions"),
        (streaming(b'data: {"choices": {}}\n\ndata: {"choices": 7}\n\n'), "no stream of completions"),
        (streaming(b"data: 7\n\n"), "no stream of completions"),
        (streaming(b"data: \xff\n\n"), "no stream of completions"),
        (streaming(b'data: {"error": {"message": "out of memory"}}\n\n'), "broke off"),
        (streaming(b"data: " + b"x" * 70_000), "no stream of completions"),
        (endless(b": still there\n\n" * 100), "no stream of completions"),
        (endless(b"x" * 1000), "no stream of completions"),
        (streaming(), "broke off"),
        (streaming(b'data: {"choices": [{"text": "a"}]}\n\n', ended=False), "takes too long|broke off"),
    ],
)
def test_misconduct_is_told_in_one_sentence_that_repeats_nothing(ask, answer, words, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(completions_api, "BETWEEN_SECONDS", 0.3)
    with serving(Server(answer=answer)) as server, pytest.raises(ServerError, match=words) as caught:
        ask(server.url, key=KEY)
    message = str(caught.value)
    assert message.endswith(".")
    assert ". " not in message.replace("127.0.0.1", "")
    assert "fim" not in message
    assert KEY not in message + caplog.text
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_missing_model_is_told_with_those_that_there_are(ask, status):
    offered = [{"id": f"model-{number}"} for number in range(20)] + [{"id": "\x1b[31m"}, {"id": 7}, "x"]
    with (
        serving(Server(answer=refusing(status), models=offered)) as server,
        pytest.raises(ServerError) as caught,
    ):
        ask(server.url)
    assert f"no model {MODEL}" in str(caught.value)
    assert "model-0, model-1" in str(caught.value)
    assert "model-19" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "seconds"), [("17", 17), ("Wed, 21 Oct 2026 07:28:00 GMT", 0), ("-1", 0), ("", 0)]
)
def test_how_long_a_server_wants_rest_is_heard(ask, given, seconds):
    answer = refusing(429, Retry_After=given)
    with serving(Server(answer=answer)) as server, pytest.raises(ServerError) as caught:
        ask(server.url)
    assert caught.value.retry_after == seconds


def test_a_server_that_is_not_there(ask):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        with pytest.raises(ServerError, match="does not answer"):
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}/v1")


def test_a_server_that_says_nothing(ask, monkeypatch):
    monkeypatch.setattr(completions_api, "FIRST_SECONDS", 0.2)
    ended = threading.Event()
    with serving(Server(answer=lambda handler, asked: ended.wait(30))) as server:
        with pytest.raises(ServerError, match="takes too long"):
            ask(server.url)
        ended.set()


def test_a_slow_drip_has_an_end(ask, monkeypatch):
    monkeypatch.setattr(completions_api, "FIRST_SECONDS", 0.4)

    def drip(handler, asked):
        handler.begin()
        while True:
            handler.chunk(b":")
            time.sleep(0.02)

    with serving(Server(answer=drip)) as server:
        with pytest.raises(ServerError, match="takes too long"):
            ask(server.url)
        assert server.hung_up.wait(30)


def test_so_has_a_long_answer(ask, monkeypatch):
    monkeypatch.setattr(completions_api, "WHOLE_SECONDS", 0.4)

    def long(handler, asked):
        handler.begin()
        for number in itertools.count():
            handler.event(f"{number} ")
            time.sleep(0.02)

    with serving(Server(answer=long)) as server, pytest.raises(ServerError, match="takes too long"):
        ask(server.url)


def test_half_a_surrogate_pair_does_not_get_through(ask):
    odd = b'data: {"choices": [{"text": "\\ud83d", "finish_reason": "stop"}]}\n\n'
    with serving(Server(answer=streaming(odd))) as server:
        assert ask(server.url) == [Event("?", "stop")]


def test_an_event_without_a_choice_is_passed_over(ask):
    usage = b'data: {"choices": [], "usage": {"completion_tokens": 1}}\n\n'
    with serving(Server(answer=streaming(usage, b"data: [DONE]\n\n"))) as server:
        assert ask(server.url) == [Event("", "stop")]


def test_what_a_server_offers():
    models = [{"id": "a", "max_model_len": 4096, "owned_by": "vllm"}, {"id": "b"}]
    models += [{"id": "c", "max_model_len": "x"}]
    with serving(Server(models=models)) as server:
        api = CompletionsApi(server.url, None)
        assert api.models() == [
            OfferedModel("a", 4096, "vllm"),
            OfferedModel("b", None),
            OfferedModel("c", None),
        ]
        api.close()


@pytest.fixture
def certificate(tmp_path):
    """A certificate for this machine that nobody vouches for, and a server's side of TLS with it."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return certificate, context


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(ask, certificate):
    _, tls = certificate
    with (
        serving(Server(), tls=tls) as server,
        pytest.raises(ServerError, match="is not trusted here"),
    ):
        ask(server.url, key=KEY)
    assert server.headers == []


@pytest.mark.skipif(sys.platform != "linux", reason="the system's store of certificates is no file there")
def test_one_that_the_system_trusts_is(ask, certificate, monkeypatch):
    trusted, tls = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    with serving(Server({"x = ": TEXT}), tls=tls) as server:
        assert text_of(ask(server.url, key=KEY)) == TEXT
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
