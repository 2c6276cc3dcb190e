"""Sessions of a real client with the real server over stdio; only the model is scripted."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from tests.lsp_server.session import generations, inline_params, live, session, until

ENDLESS = "x = 1\n" * 100


@live
async def test_a_suggestion_comes_with_a_range_at_the_cursor(tmp_path):
    async with session(tmp_path, {"return ": "a + b"}) as it:
        it.open("def add(a, b):\n    return ")
        (item,) = await it.inline(1, 11)
    assert item.insert_text == "a + b"
    assert item.range == types.Range(types.Position(1, 11), types.Position(1, 11))


@live
async def test_what_the_server_can_do_is_advertised(tmp_path):
    async with session(tmp_path) as it:
        can = it.initialized.capabilities
    assert can.inline_completion_provider is not None
    assert can.completion_provider is None
    assert can.text_document_sync.open_close
    assert can.text_document_sync.change == types.TextDocumentSyncKind.Incremental


@pytest.mark.parametrize(
    ("offered", "chosen", "column"),
    [
        (None, "utf-16", 9),
        (["utf-8", "utf-16"], "utf-8", 11),
        (["utf-32", "utf-8"], "utf-32", 8),
        (["utf-7", "utf-16"], "utf-16", 9),
    ],
)
@live
async def test_positions_are_in_the_encoding_the_client_prefers(tmp_path, offered, chosen, column):
    async with session(tmp_path, {'a="😀"; b=': "1"}, encodings=offered) as it:
        it.open('a="😀"; b= # t')
        (item,) = await it.inline(0, column + 1)
    assert it.initialized.capabilities.position_encoding == chosen
    assert item.range.start == types.Position(0, column + 1)


@live
async def test_edits_arrive_in_the_prompt(tmp_path):
    async with session(tmp_path, {"я = 'привет'\n": "ok"}) as it:
        it.open("a\x0cb\u2028c\nя = ''\n")
        it.edit((1, 5), (1, 5), "прт")
        it.edit((1, 7), (1, 7), "иве")
        (item,) = await it.inline(2, 0)
    assert item.insert_text == "ok"


@live
async def test_a_form_feed_does_not_shift_later_edits(tmp_path):
    async with session(tmp_path, {"\x0c\ndef f():\n    y = ": "2"}) as it:
        it.open("import a\n\x0c\ndef f():\n    x = \n")
        it.edit((3, 4), (3, 5), "y")
        (item,) = await it.inline(3, 8)
    assert item.insert_text == "2"


@live
async def test_a_position_past_the_end_of_its_line_is_the_line_s_end(tmp_path):
    async with session(tmp_path, {"x = ": "1"}) as it:
        it.open("x = ")
        (item,) = await it.inline(0, 99)
    assert item.range.start == types.Position(0, 4)


@live
async def test_a_bracket_that_the_editor_closed_is_not_closed_again(tmp_path):
    async with session(tmp_path, {"numpy.array(": "[1, 2])"}) as it:
        it.open("a = numpy.array()\n")
        (item,) = await it.inline(0, 16)
    assert item.insert_text == "[1, 2]"


@live
async def test_a_file_with_crlf_gets_crlf_and_the_same_text(tmp_path):
    async with session(tmp_path, {"if a:": "\n    b()\n    c()\nd"}) as it:
        it.open("if a:\r\n")
        (item,) = await it.inline(0, 5)
        it.open("if a:\n", uri="file:///lf.py")
        (other,) = await it.inline(0, 5, uri="file:///lf.py")
    assert item.insert_text == "\r\n    b()\r\n    c()"
    assert other.insert_text == "\n    b()\n    c()"


@live
async def test_the_popup_s_selected_item_begins_the_suggestion(tmp_path):
    async with session(tmp_path, {"obj = json.loads": "(text)"}) as it:
        it.open("obj = json.lo\n")
        replaced = types.Range(types.Position(0, 11), types.Position(0, 13))
        (item,) = await it.inline(0, 13, selected=types.SelectedCompletionInfo(replaced, "loads"))
    assert item.insert_text == "loads(text)"
    assert item.range == replaced


@live
async def test_clients_without_inline_completion_get_an_item_in_their_popup(tmp_path):
    async with session(tmp_path, {"return ": "a + b"}, inline=False) as it:
        assert it.initialized.capabilities.completion_provider is not None
        it.open("def add(a, b):\n    return ")
        answer = await it.client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier("file:///t.py"), types.Position(1, 11))
        )
    (item,) = answer.items
    assert item.label == "a + b"
    assert item.text_edit.new_text == "a + b"


@live
async def test_such_an_item_begins_with_the_word_before_the_cursor_as_clients_want_it(tmp_path):
    async with session(tmp_path, {"名.loa": "ds(\n    text)"}, inline=False) as it:
        it.open("x = 名.loa")
        answer = await it.client.text_document_completion_async(
            types.CompletionParams(types.TextDocumentIdentifier("file:///t.py"), types.Position(0, 9))
        )
    (item,) = answer.items
    assert item.label == "loads("
    assert item.text_edit.new_text == "loads(\n    text)"
    assert item.text_edit.range == types.Range(types.Position(0, 6), types.Position(0, 9))
    assert item.insert_text_mode == types.InsertTextMode.AsIs


@live
async def test_a_newer_request_supersedes_the_older(tmp_path):
    async with session(tmp_path, {"a": ENDLESS, "b": "ok"}, delay=0.05) as it:
        it.open("a\nb")
        older = asyncio.ensure_future(it.inline(0, 1))
        await asyncio.sleep(0.2)
        newer = await it.inline(1, 1)
        assert await older == []
    assert [item.insert_text for item in newer] == ["ok"]
    assert generations(tmp_path)[0] < 64


@live
async def test_of_many_requests_for_a_document_only_the_last_gets_a_suggestion(tmp_path):
    async with session(tmp_path, {"a": ENDLESS, "b": "ok"}, delay=0.02) as it:
        it.open("a\nb")
        answers = await asyncio.gather(*(it.inline(0, 1) for _ in range(20)), it.inline(1, 1))
    assert [len(answer) for answer in answers] == [0] * 20 + [1]
    assert all(tokens < 64 for tokens in generations(tmp_path))


@live
async def test_another_document_s_request_is_not_superseded(tmp_path):
    async with session(tmp_path, {"a": "one", "b": "two"}, delay=0.02) as it:
        it.open("a", uri="file:///1.py")
        it.open("b", uri="untitled:2")
        first, second = await asyncio.gather(it.inline(0, 1, "file:///1.py"), it.inline(0, 1, "untitled:2"))
    assert [first[0].insert_text, second[0].insert_text] == ["one", "two"]


@live
async def test_an_edit_ends_the_generation_for_the_text_before_it(tmp_path):
    async with session(tmp_path, {"a": ENDLESS}, delay=0.05) as it:
        it.open("a")
        request = asyncio.ensure_future(it.inline(0, 1))
        await asyncio.sleep(0.2)
        it.edit((0, 1), (0, 1), "c")
        assert await request == []
    assert generations(tmp_path)[0] < 64


@live
async def test_a_cancelled_request_gets_the_protocol_s_error_and_ends_the_generation(tmp_path):
    async with session(tmp_path, {"a": ENDLESS, "b": "ok"}, delay=0.05) as it:
        it.open("a\nb")
        method = types.TEXT_DOCUMENT_INLINE_COMPLETION
        request = it.client.protocol.send_request_async(method, inline_params(0, 1), msg_id="7")
        await asyncio.sleep(0.2)
        it.client.cancel_request(types.CancelParams("7"))
        with pytest.raises(JsonRpcException) as error:
            await request
        assert error.value.code == types.LSPErrorCodes.RequestCancelled
        (item,) = await it.inline(1, 1)
    assert item.insert_text == "ok"
    assert generations(tmp_path)[0] < 64


@live
async def test_while_the_model_loads_the_answer_is_empty_and_progress_is_shown(tmp_path):
    async with session(tmp_path, {"a": "x"}, load="never", progress=True, wait=False) as it:
        it.open("a")
        assert await it.inline(0, 1) == []
        await until(lambda: len(it.progress) >= 2)
        status = await it.request("draftline/status", {})
    assert status.state == "loading"
    assert it.progress[0]["kind"] == "begin"
    assert it.progress[1]["percentage"] == 25


@live
async def test_progress_ends_when_the_model_is_ready(tmp_path):
    async with session(tmp_path, progress=True) as it:
        await until(lambda: any(value["kind"] == "end" for value in it.progress))


@live
async def test_a_failure_to_load_is_told_once_and_the_answers_stay_empty(tmp_path):
    sentence = "The model is not installed; run `model-setup fetch`."
    async with session(tmp_path, {"a": "x"}, load=sentence) as it:
        it.open("a")
        assert [await it.inline(0, 1) for _ in range(3)] == [[], [], []]
        status = await it.request("draftline/status", {})
        assert await it.leave() == 0
    assert it.messages == [sentence]
    assert (status.state, status.message) == ("error", sentence)


@live
async def test_a_wrong_option_is_told_in_one_sentence(tmp_path):
    async with session(tmp_path, options={"weights": 8}) as it:
        assert await it.leave() == 0
    (message,) = it.messages
    assert message.startswith("weights in the editor's settings must be ")


@live
async def test_a_generation_that_fails_is_told_once_and_the_next_one_works(tmp_path):
    async with session(tmp_path, {"a": "CRASH", "b": "ok"}) as it:
        it.open("a\nb")
        assert [await it.inline(0, 1) for _ in range(2)] == [[], []]
        (item,) = await it.inline(1, 1)
    assert item.insert_text == "ok"
    assert len(it.messages) == 1


@live
async def test_params_that_cannot_be_read_get_an_error(tmp_path):
    async with session(tmp_path, {"a": "x"}) as it:
        it.open("a")
        for params in (None, {}, {"textDocument": {"uri": "file:///t.py"}, "position": {"line": -1}}):
            with pytest.raises(JsonRpcException) as error:
                await raw_request(it, "textDocument/inlineCompletion", params)
            assert error.value.code == types.ErrorCodes.InvalidParams
        trigger_zero = {
            "textDocument": {"uri": "file:///t.py"},
            "position": {"line": 0, "character": 1},
            "context": {"triggerKind": 0},
        }
        with pytest.raises(JsonRpcException):
            await raw_request(it, "textDocument/inlineCompletion", trigger_zero)
        with pytest.raises(JsonRpcException):
            await it.request("draftline/origins", {"uri": "file:///t.py"})
        assert len(await it.inline(0, 1)) == 1


async def raw_request(it, method, params):
    """A request that the client's own types would not let through."""
    client = it.client.protocol
    future = asyncio.get_running_loop().create_future()
    client._request_futures["raw"] = future
    message = {"jsonrpc": "2.0", "id": "raw", "method": method}
    body = json.dumps(message if params is None else {**message, "params": params})
    it.process.stdin.write(f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
    return await asyncio.wait_for(future, 30)


@live
async def test_a_document_that_is_not_open_gets_an_empty_answer(tmp_path):
    async with session(tmp_path, {"a": "x"}) as it:
        it.edit((0, 0), (0, 0), "a", uri="file:///never.py")
        assert await it.inline(0, 1, uri="file:///never.py") == []
        it.open("a")
        it.client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier("file:///t.py"))
        )
        assert await it.inline(0, 1) == []
    assert generations(tmp_path) == []


@live
async def test_shutdown_and_exit_in_mid_generation_leave_with_zero(tmp_path):
    async with session(tmp_path, {"a": ENDLESS}, delay=0.05) as it:
        it.open("a")
        request = asyncio.ensure_future(it.inline(0, 1))
        await asyncio.sleep(0.2)
        assert await it.leave() == 0
        with pytest.raises(JsonRpcException):
            await request


@live
async def test_shutdown_while_the_model_loads_leaves_with_zero(tmp_path):
    async with session(tmp_path, load="never", wait=False) as it:
        assert await it.leave() == 0


@live
async def test_exit_without_shutdown_leaves_with_one(tmp_path):
    async with session(tmp_path) as it:
        it.client.exit(None)
        assert await asyncio.wait_for(it.process.wait(), 30) == 1


@live
async def test_a_client_that_is_gone_takes_the_server_with_it(tmp_path):
    async with session(tmp_path, {"a": ENDLESS}, delay=0.05) as it:
        it.open("a")
        request = asyncio.ensure_future(it.inline(0, 1))
        await asyncio.sleep(0.2)
        it.process.stdin.close()
        assert await asyncio.wait_for(it.process.wait(), 30) == 1
        with pytest.raises((JsonRpcException, RuntimeError)):
            await request


@live
async def test_a_request_after_shutdown_gets_an_error(tmp_path):
    async with session(tmp_path) as it:
        await it.client.shutdown_async(None)
        with pytest.raises(JsonRpcException) as error:
            await it.inline(0, 0)
    assert error.value.code == types.ErrorCodes.InvalidRequest


@live
async def test_origins_tell_how_the_last_suggestion_came_about(tmp_path):
    async with session(tmp_path, {"return ": "a+b"}) as it:
        it.open("def add(a, b):\n    return ")
        document = {"textDocument": {"uri": "file:///t.py"}}
        assert await it.request("draftline/origins", document) is None
        await it.inline(1, 11)
        last = await it.request("draftline/origins", document)
        position = {"line": 1, "character": 11}
        plain = await it.request("draftline/complete", {**document, "position": position, "mode": "plain"})
        with pytest.raises(JsonRpcException):
            await it.request("draftline/complete", {**document, "position": position, "mode": "fast"})
    assert (last.text, last.tokens) == ("a+b", ["a", "+", "b"])
    assert set(last.origins) <= {"oracle", "draft2", "draft"}
    assert last.tokensPerSecond > 0
    assert plain.text == last.text


@live
async def test_the_client_s_log_says_where_the_server_s_is(tmp_path):
    async with session(tmp_path) as it:
        assert it.logged == [f"More is in the server's log, {tmp_path / 'logs' / 'server.log'}."]
        assert (tmp_path / "logs" / "server.log").exists()


@live
async def test_neither_stderr_nor_the_log_holds_source_text(tmp_path):
    async with session(tmp_path, {"secret": "CRASH", "b": "hidden"}) as it:
        it.open("secret\nb")
        await it.inline(0, 6)
        await it.inline(1, 1)
        await raw_request_ignoring_errors(it)
        assert await it.leave() == 0
        assert await it.process.stderr.read() == b""
    log = (tmp_path / "logs" / "server.log").read_text("utf-8")
    assert "a suggestion failed" in log
    assert "secret" not in log
    assert "hidden" not in log


async def raw_request_ignoring_errors(it):
    with contextlib.suppress(JsonRpcException):
        await raw_request(it, "textDocument/inlineCompletion", {"position": "secret"})


INVOICE = "def charge(gateway, invoice):\n    return gateway.pay(invoice)\n"
PAID = "paid = gateway.pay(invoice)\nx = "
IN_THE_PROMPT = f"# def charge(gateway, invoice):\n#     return gateway.pay(invoice)\n\n{PAID}"


@live
async def test_other_open_documents_are_in_the_prompt_until_they_are_closed(tmp_path):
    async with session(tmp_path, {IN_THE_PROMPT: "1", "x = ": "2"}) as it:
        it.open(INVOICE, "untitled:Untitled-1")
        it.open(PAID)
        (beside,) = await it.inline(1, 4)
        document = types.TextDocumentIdentifier("untitled:Untitled-1")
        it.client.text_document_did_close(types.DidCloseTextDocumentParams(document))
        it.edit((0, 0), (0, 0), " ")
        (alone,) = await it.inline(1, 4)
    assert (beside.insert_text, alone.insert_text) == ("1", "2")


@live
async def test_an_open_file_of_secrets_is_never_in_the_prompt(tmp_path):
    async with session(tmp_path, {IN_THE_PROMPT: "1", "x = ": "2"}) as it:
        it.open(INVOICE, "untitled:.env")
        it.open(PAID)
        (item,) = await it.inline(1, 4)
    assert item.insert_text == "2"
