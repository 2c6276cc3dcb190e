"""pygls' protocol with the parts replaced that would lose text or leave a client without an answer."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcInvalidRequest
from pygls.protocol import LanguageServerProtocol, lsp_method

if TYPE_CHECKING:
    from lsp_server.server import DraftlineServer

logger = logging.getLogger(__name__)


class DraftlineProtocol(LanguageServerProtocol):
    _server: DraftlineServer

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(self, params: types.InitializeParams) -> Generator[Any, Any, types.InitializeResult]:
        result = yield from super().lsp_initialize(params)
        text_document = params.capabilities.text_document
        if text_document and text_document.inline_completion:
            # Such a client would ask for both at each key, and show the same text twice.
            result.capabilities.completion_provider = None
        return result

    # pygls keeps documents of its own, which split lines where the protocol does not. Ours stand in for them.

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        self._server.opened(document.uri, document.text, document.version)

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.changed(params)

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.closed(params.text_document.uri)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message from its JSON, or None for a request that cannot be read: that one is answered here,
        because the caller no longer knows its id."""
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if "method" not in data or "id" not in data:
                raise
            logger.warning("a %s request could not be read", data["method"])
            params = JsonRpcInvalidParams(f"The parameters of this {data['method']} request cannot be read.")
            self._send_response(data["id"], error=params.to_response_error())
            return None

    def handle_message(self, message: Any) -> None:
        if message is None:
            return
        if self._shutdown and hasattr(message, "method") and hasattr(message, "id"):
            error = JsonRpcInvalidRequest("The server is shutting down.")
            self._send_response(message.id, error=error.to_response_error())
            return
        super().handle_message(message)
