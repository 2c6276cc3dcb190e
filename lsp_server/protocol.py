"""pygls' protocol with the parts replaced that would lose text or leave a client without an answer."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

logger = logging.getLogger(__name__)

# What is read of an `initialize` request. The rest is left out before the types are checked: they know no
# value that came after them, and a client with a new kind of symbol would get no server at all.
_READ = ("processId", "rootUri", "workspaceFolders", "initializationOptions")
_CAPABILITIES_READ = {
    "general": ("positionEncodings",),
    "window": ("workDoneProgress",),
    "workspace": ("configuration", "didChangeConfiguration"),
    "textDocument": ("inlineCompletion",),
}


class DraftlineProtocol(LanguageServerProtocol):
    _server: DraftlineServer
    _initialized = False

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        self._initialized = True
        text_document = params.capabilities.text_document
        if text_document and text_document.inline_completion:
            # Such a client would ask for both at each key, and show the same text twice.
            result.capabilities.completion_provider = None
        return result

    # pygls keeps documents of its own, which split lines where the protocol does not. Ours stand in for them.

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self._server.opened(document.uri, document.text, document.version, document.language_id)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.changed(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.closed(params.text_document.uri)

    def handle_body(self, body: bytes) -> None:
        """Deal with a message as it came off the wire. Every request gets an answer."""
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            return self._refuse(None, JsonRpcParseError("The message is not JSON."))
        if not isinstance(data, dict):
            return self._refuse(None, JsonRpcInvalidRequest("The message is not a JSON object."))
        method, is_request = data.get("method"), "id" in data and "method" in data
        if is_request and (objection := self._objection(data)):
            return self._refuse(data["id"], objection)
        if not is_request and data.get("jsonrpc") != self.VERSION:
            return logger.warning("what is no message was ignored")
        if not (is_request or self._initialized or method == types.EXIT):
            return logger.warning("a message before initialize was ignored")
        try:
            message = self.structure_message(_completed(data))
        except JsonRpcException:
            logger.warning("a %s message could not be read", method)
            if is_request:
                error = JsonRpcInvalidParams(f"The parameters of this {method} request cannot be read.")
                self._refuse(data["id"], error)
            elif method in (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE):
                self._server.lost(_uri(data))
        else:
            self.handle_message(message)

    def _objection(self, request: Mapping[str, Any]) -> JsonRpcException | None:
        """Why a request cannot be served, whatever its parameters are."""
        method = request["method"]
        named = isinstance(method, str) and not isinstance(request["id"], list | dict)
        if request.get("jsonrpc") != self.VERSION or not named:
            return JsonRpcInvalidRequest("The message is not JSON-RPC 2.0.")
        if self._shutdown:
            return JsonRpcInvalidRequest("The server is shutting down.")
        if self._initialized == (method == types.INITIALIZE):
            if self._initialized:
                return JsonRpcInvalidRequest("The server is initialized already.")
            return JsonRpcServerNotInitialized("Send an initialize request first.")
        try:
            self._get_handler(method)
        except JsonRpcMethodNotFound as error:
            return error
        return None

    def _refuse(self, message_id: Any, error: JsonRpcException) -> None:
        # Not with _send_response, which leaves out an id of null.
        answer = {"jsonrpc": self.VERSION, "id": message_id, "error": error.to_response_error()}
        self._send_data(answer)


def _completed(data: dict[str, Any]) -> dict[str, Any]:
    """A message with the params that may be left out, and without what nobody reads of ``initialize``'s."""
    if "method" not in data:
        return data
    params = data.get("params")
    if data["method"] == types.INITIALIZED:
        params = {}
    elif data["method"] == types.INITIALIZE and isinstance(params, dict):
        params = {name: params[name] for name in _READ if name in params}
        params["capabilities"] = _capabilities_read(data["params"].get("capabilities"))
    return {**data, "params": params}


def _capabilities_read(capabilities: Any) -> dict[str, dict[str, Any]]:
    groups = capabilities if isinstance(capabilities, dict) else {}
    return {
        group: {name: groups[group][name] for name in names if name in groups[group]}
        for group, names in _CAPABILITIES_READ.items()
        if isinstance(groups.get(group), dict)
    }


def _uri(notification: Mapping[str, Any]) -> str | None:
    try:
        return str(notification["params"]["textDocument"]["uri"])
    except (KeyError, TypeError):
        return None
