"""Suggestions by a team's server: the same as the engine's for the same text, whatever happens on the way."""

from __future__ import annotations

import hashlib
import itertools
import re
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DraftlineError
from engine.request import CancelToken, SamplingParams
from lsp_server import server_writer
from lsp_server.completer import USUAL, Completer
from lsp_server.documents import Cursor, split_lines
from lsp_server.server_writer import connect
from lsp_server.writer import EngineWriter
from tests.lsp_server.completions_server import MODEL, Handler, Server, parts, serving
from tests.lsp_server.scripted_engine import ScriptedEngine


@pytest.fixture
def by():
    """A completer by the server at an address."""
    made = []

    def completer(server, model=MODEL, family=None):
        made.append(connect(server.url, model, family))
        return Completer(made[-1])

    yield completer
    for writer in made:
        writer.close()


def suggest(completer, text="x = ", cursor=None, cancel=None, wanted=USUAL):
    lines = split_lines(text)
    cursor = cursor or Cursor(len(lines) - 1, len(lines[-1]))
    return completer.complete(lines, cursor, cancel or CancelToken(), wanted)


def test_a_suggestion_and_how_it_came_about(by):
    with serving(Server({"if a:": "\n    b\nc = 1"})) as server:
        completer = by(server)
        suggestion = suggest(completer, "if a:")
    assert suggestion.text == "\n    b"
    assert "".join(suggestion.tokens) == "\n    b\nc "
    assert suggestion.origins == ["oracle"] * 3
    assert suggestion.cycles == 3
    assert not suggestion.cut
    assert completer.writer.goes_to == server.url.split("/")[2]


@pytest.fixture(scope="module")
def everything():
    """A server for many examples, and a completer by it."""
    with serving(Server()) as server:
        writer = connect(server.url, MODEL)
        yield server, Completer(writer)
        writer.close()


@given(
    written=st.text("ab ()[]{}:\n\té", max_size=40),
    left=st.sampled_from(["", "x = ", "if a:", "    f(", "\t", "def "]),
    right=st.sampled_from(["", ")", "\n    b\n", "\n)\n"]),
    step=st.integers(1, 9),
)
@settings(max_examples=40, deadline=None)
def test_the_server_s_text_is_judged_as_the_engine_s(everything, written, left, right, step):
    def answer(handler, asked):
        before, _ = parts(asked["prompt"])
        server.texts = {"": left[len(before) :] + written}  # what was not shown of the line is written anew
        handler.write(asked)

    server, theirs = everything
    server.answer, server.step = answer, step
    ours = Completer(EngineWriter(ScriptedEngine(lambda prefix, suffix: written)))
    cursor = Cursor(0, len(left))
    assert suggest(theirs, left + right, cursor).text == suggest(ours, left + right, cursor).text


def test_what_was_typed_of_a_word_is_no_part_of_the_suggestion(by):
    with serving(Server({"   ": " return x"}, step=4)) as server:
        assert suggest(by(server), "    retu").text == "rn x"
    assert len(server.asked) == 1  # the model wrote the word of its own accord
    assert server.prompts[0].endswith("<|fim_prefix|>   <|fim_suffix|><|fim_middle|>")


@pytest.mark.parametrize("step", [1, 2, 3, 9])
def test_where_the_model_would_have_written_another_word_it_is_asked_again(by, step):
    with serving(Server({"   ": " retry()", "    retu": "rn x"}, step=step)) as server:
        suggestion = suggest(by(server), "    retu")
    assert suggestion.text == "rn x"
    assert "".join(suggestion.tokens) == "rn x"
    assert server.prompts[1].endswith("<|fim_middle|> retu")


def test_so_it_is_where_the_model_writes_nothing(by):
    with serving(Server({"    retu": "rn x"})) as server:
        assert suggest(by(server), "    retu").text == "rn x"


@pytest.mark.parametrize(
    ("owner", "field", "value"),
    [
        ("vllm", "structured_outputs", {"regex": r"\.retu(.|\n)*"}),
        ("llamacpp", "grammar", r'root ::= ".retu" [^\x00]*'),
    ],
)
def test_a_server_that_takes_constraints_is_told_how_its_text_begins(by, owner, field, value):
    models = [{"id": MODEL, "owned_by": owner}]
    with serving(Server({"x": ".return_(1)"}, models=models)) as server:
        assert suggest(by(server), "x.retu").text == "rn_(1)"
    assert server.asked[0][field] == value
    assert len(server.asked) == 1


def test_one_that_refuses_them_is_not_asked_so_again(by):
    def refusing(handler, asked):
        if "grammar" in asked:
            handler.json({}, 400)
        else:
            handler.write(asked)

    models = [{"id": MODEL, "owned_by": "llamacpp"}]
    with serving(Server({"   ": " return", "    retu": "rn x"}, refusing, models=models)) as server:
        completer = by(server)
        assert suggest(completer, "    retu").text == "rn x"
        assert suggest(completer, "    retu").text == "rn"
    assert ["grammar" in asked for asked in server.asked] == [True, False, False]


def test_no_more_is_read_than_the_suggestion_takes(by):
    with serving(Server({"f(": "1\n" * 2000}, delay=0.02)) as server:
        assert suggest(by(server), "f()", Cursor(0, 2), wanted=SamplingParams(4000)).text == "1"
        assert server.hung_up.wait(30)


def test_a_text_of_as_many_tokens_as_were_asked_for_may_end_anywhere(by):
    with serving(Server({"if a:": "\n    b\n    cde"})) as server:
        assert suggest(by(server), "if a:", wanted=SamplingParams(12)).text == "\n    b"


def test_a_server_that_does_not_stop_is_stopped(by):
    def endless(handler, asked):
        handler.begin()
        for number in itertools.count():
            handler.event(hashlib.sha256(b"%d" % number).hexdigest())

    with serving(Server(answer=endless)) as server:
        assert len(suggest(by(server), "\n", wanted=SamplingParams(20)).text) <= 20 * 16
        assert server.hung_up.wait(30)


def test_how_to_decode_is_passed_on(by):
    with serving(Server()) as server:
        suggest(by(server), wanted=SamplingParams(17, temperature=0.5, top_p=0.9, seed=3))
    asked = server.asked[-1]
    assert (asked["max_tokens"], asked["temperature"], asked["top_p"], asked["seed"]) == (17, 0.5, 0.9, 3)
    assert "<|file_sep|>" in asked["stop"]


def test_a_prompt_keeps_to_what_the_server_takes(by):
    with serving(Server(models=[{"id": MODEL, "max_model_len": 100}])) as server:
        suggest(by(server), "word " * 1000)
    assert len(server.prompts[0]) < 1000
    assert server.asked[0]["max_tokens"] <= 56


def test_prompts_are_not_read_ahead(by):
    with serving(Server()) as server:
        by(server).read_ahead(["x"], Cursor(0, 1), CancelToken())
    assert server.asked == []


def test_a_cancelled_request_gives_what_there_is(by):
    cancel = CancelToken()

    def answer(handler, asked):
        handler.begin()
        handler.event("foo(a, ")
        cancel.cancel()
        handler.until_gone()

    with serving(Server(answer=answer)) as server:
        suggestion = suggest(by(server), "x =", cancel=cancel)
    assert suggestion.cut


def failing(handler, asked):
    handler.json({}, 500)


def test_after_a_failure_the_server_is_left_alone_and_then_asked_again(by, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(server_writer.time, "monotonic", lambda: now[0])
    with serving(Server({"x = ": "foo"}, answer=failing)) as server:
        completer = by(server)
        for asked, seconds in [(1, 0.9), (1, 0.2), (2, 1.9), (2, 0.2), (3, 3.9), (3, 0.0)]:
            with pytest.raises(DraftlineError, match="failed"):
                suggest(completer)
            assert len(server.asked) == asked
            now[0] += seconds
        server.answer = Handler.write
        now[0] += 0.2
        assert suggest(completer).text == "foo"
        server.answer = failing  # it begins anew
        with pytest.raises(DraftlineError):
            suggest(completer)
        now[0] += 1.1
        server.answer = Handler.write
        assert suggest(completer).text == "foo"


def test_for_as_long_as_it_wants(by, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(server_writer.time, "monotonic", lambda: now[0])
    with serving(
        Server({"x = ": "foo"}, lambda handler, asked: handler.json({}, 429, Retry_After="20"))
    ) as server:
        completer = by(server)
        for seconds in (19.0, 1.1):
            with pytest.raises(DraftlineError, match="too much to do"):
                suggest(completer)
            now[0] += seconds
        server.answer = Handler.write
        assert suggest(completer).text == "foo"
    assert len(server.asked) == 3


def test_a_server_that_is_too_slow_for_the_editor_is_told_of_once(by, monkeypatch):
    monkeypatch.setattr(server_writer, "_SLOW_SECONDS", 0.1)
    cancels, told = [], []

    def silent(handler, asked):
        time.sleep(0.2)
        cancels[-1].cancel()
        handler.until_gone()

    with serving(Server(answer=silent)) as server:
        completer = by(server)
        for _ in range(5):
            cancels.append(CancelToken())
            try:
                suggest(completer, cancel=cancels[-1])
            except DraftlineError as error:
                told.append(str(error))
    assert len(told) == 1
    assert "takes too long" in told[0]


def test_one_that_is_down_is_told_of_at_the_start_and_asked_when_it_is_up(by):
    with serving(Server({"x = ": "foo"})) as server:
        port = int(server.url.split(":")[2].split("/")[0])
    completer = by(server)
    assert "does not answer" in completer.writer.notice
    with serving(Server({"x = ": "foo"}), port):
        assert suggest(completer).text == "foo"


@pytest.mark.parametrize(
    ("models", "notice"),
    [([{"id": "other"}], "no model .* other"), ([], "^$"), ([{"id": MODEL}, {"id": "other"}], "^$")],
)
def test_a_missing_model_is_told_of_at_the_start(by, models, notice):
    with serving(Server(models=models)) as server:
        writer = by(server).writer
    assert re.search(notice, writer.notice)


@pytest.mark.parametrize(
    ("url", "model", "missing"), [(None, "m", "server_url"), ("http://h", None, "server_model")]
)
def test_what_is_not_set_is_named(url, model, missing):
    with pytest.raises(DraftlineError, match=missing):
        connect(url, model)


def test_a_model_of_an_unknown_family_is_refused_before_anything_is_sent():
    with serving(Server()) as server, pytest.raises(DraftlineError, match="Codestral"):
        connect(server.url, "Codestral-22B")
    assert server.paths == []


def test_a_server_needs_no_torch_here_and_the_engine_no_http_client():
    code = "import sys, lsp_server.{0}; print({1!r} in sys.modules)"
    for module, other in (("server_writer", "torch"), ("loading", "httpx")):
        command = [sys.executable, "-c", code.format(module, other)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_nothing_is_waited_for_longer_than_asked(by):
    """Cancelling ends the wait at once, also where the server holds back its answer's beginning."""
    ended = threading.Event()
    cancel = CancelToken()
    with serving(Server(answer=lambda handler, asked: ended.wait(60))) as server:
        completer = by(server)
        threading.Timer(0.1, cancel.cancel).start()
        started = time.monotonic()
        suggest(completer, cancel=cancel)
        assert time.monotonic() - started < 30
        ended.set()
