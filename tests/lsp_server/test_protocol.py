"""Every request gets an answer, and a client newer or less exact than we know is served all the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from lsp_server.server import DraftlineServer

INITIALIZE = {"processId": None, "rootUri": None, "capabilities": {}}


class Client:
    """Says messages to a server's protocol and hears what it writes; no process, no model."""

    def __init__(self, initialize=INITIALIZE):
        self.server = DraftlineServer(lambda settings, on_progress: None)
        self.server.protocol.set_writer(self)
        self.heard = []
        if initialize is not None:
            self.initialized = self.ask("initialize", initialize)

    def write(self, data):
        self.heard.append(json.loads(data.partition(b"\r\n\r\n")[2]))

    def say(self, message):
        self.server.protocol.handle_body(json.dumps(message).encode())

    def tell(self, method, params):
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method, *params, message_id="id"):
        message = {"jsonrpc": "2.0", "id": message_id, "method": method}
        self.say({**message, "params": params[0]} if params else message)
        return self.heard[-1]

    def open(self, **other):
        item = {"uri": "file:///t.py", "languageId": "python", "version": 1, "text": "a", **other}
        self.tell("textDocument/didOpen", {"textDocument": item})


@pytest.mark.parametrize("method", ["textDocument/inlineCompletion", "draftline/status", "shutdown"])
def test_a_request_before_initialize_gets_the_protocol_s_error(method):
    client = Client(initialize=None)
    assert client.ask(method, {})["error"]["code"] == types.ErrorCodes.ServerNotInitialized
    client.open()
    assert not client.server.documents


def test_a_second_initialize_gets_an_error_and_changes_nothing():
    client = Client()
    again = {**INITIALIZE, "capabilities": {"general": {"positionEncodings": ["utf-8"]}}}
    assert client.ask("initialize", again)["error"]["code"] == types.ErrorCodes.InvalidRequest
    assert client.server.server_capabilities.position_encoding == "utf-16"


@pytest.mark.parametrize("params", [(), (None,), ([],), ({"class": 1},)])
@pytest.mark.parametrize("method", ["no/such", "textDocument/hover"])
def test_an_unknown_method_is_called_so_whatever_its_params(method, params):
    assert Client().ask(method, *params)["error"]["code"] == types.ErrorCodes.MethodNotFound


@pytest.mark.parametrize("params", [(), (None,), ({},)])
def test_params_that_nobody_reads_may_be_left_out(params):
    client = Client()
    assert client.ask("draftline/status", *params)["result"]["state"] == "loading"
    assert client.ask("shutdown", *params)["result"] is None


@pytest.mark.parametrize(
    "unknown",
    [
        {"trace": "compact"},
        {"capabilities": None},
        {"capabilities": {"textDocument": {"completion": {"completionItemKind": {"valueSet": [1, 99]}}}}},
        {"capabilities": {"workspace": {"workspaceEdit": {"failureHandling": "new"}}}},
        {"capabilities": {"general": None, "window": [], "textDocument": {"inlineCompletion": {"new": 1}}}},
        {"initializationOptions": {"jsonrpc": "2.0", "id": 1}},
        {"clientInfo": "an editor", "locale": 5},
    ],
)
def test_what_is_not_known_or_read_does_not_keep_a_client_from_being_served(unknown):
    assert "capabilities" in Client({**INITIALIZE, **unknown}).initialized["result"]


@pytest.mark.parametrize(
    "change",
    [
        {"contentChanges": [{"range": {"start": {"line": -1, "character": 0}}, "text": "b"}]},
        {"contentChanges": [{"text": 5, "range": None}]},
        {"contentChanges": "b"},
        {},
    ],
)
def test_after_a_change_that_cannot_be_read_the_document_is_unknown_until_opened_again(change):
    client = Client()
    client.open()
    document = {"uri": "file:///t.py", "version": 2}
    client.tell("textDocument/didChange", {"textDocument": document, **change})
    assert not client.server.documents
    assert client.heard[-1]["method"] == "window/showMessage"
    client.open(text="b")
    assert client.server.documents["file:///t.py"].text == "b"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"a":', types.ErrorCodes.ParseError),
        (b"\xff\xfe\xff\xfe", types.ErrorCodes.ParseError),
        (b"[" * 200_000, types.ErrorCodes.ParseError),
        (b"[1]", types.ErrorCodes.InvalidRequest),
        (b"null", types.ErrorCodes.InvalidRequest),
    ],
)
def test_what_is_no_message_gets_an_error_without_an_id(body, code):
    client = Client()
    client.server.protocol.handle_body(body)
    assert client.heard[-1]["error"]["code"] == code
    assert client.heard[-1]["id"] is None


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "draftline/status"},
        {"jsonrpc": "1.0", "id": 1, "method": "draftline/status"},
        {"jsonrpc": "2.0", "id": 1, "method": ["draftline/status"]},
        {"jsonrpc": "2.0", "id": [1], "method": "draftline/status"},
    ],
)
def test_a_request_of_another_form_gets_an_error(message):
    client = Client()
    client.say(message)
    assert client.heard[-1]["error"]["code"] == types.ErrorCodes.InvalidRequest
    assert client.heard[-1]["id"] == message["id"]


@pytest.fixture(scope="module")
def client_of_all():
    return Client()  # takes long to make


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["textDocument", "uri", "position", "line", "character", "context", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.data())
def test_no_params_leave_a_request_without_an_answer(client_of_all, data):
    method = data.draw(st.sampled_from(["draftline/origins", "workspace/executeCommand", "no/such"]))
    assert client_of_all.ask(method, data.draw(JSON), message_id="this")["id"] == "this"
    assert client_of_all.ask("draftline/status", message_id="next")["id"] == "next"


@given(message=JSON)
def test_no_message_stops_the_server(client_of_all, message):
    client_of_all.server.protocol.handle_body(json.dumps(message).encode())
    assert client_of_all.ask("draftline/status", message_id="next")["id"] == "next"
