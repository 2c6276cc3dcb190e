"""The real server, which tells the text that it has: ``python -m tests.benchmarks.text_server``.

One request is added: ``benchmark/text`` takes ``{uri}`` and gives the text of that open document, or null.
"""

from __future__ import annotations

from typing import Any

from lsp_server import stdio
from lsp_server.hosted import load_where_set
from lsp_server.logs import log_to_file
from lsp_server.server import DraftlineServer


def text(server: DraftlineServer, params: Any) -> str | None:
    document = server.documents.get(params.uri)
    return None if document is None else document.text


if __name__ == "__main__":
    log_to_file()
    serving = DraftlineServer(load_where_set)
    serving.feature("benchmark/text")(text)
    stdio.serve(serving)
