"""The real server over stdio whose model is in a scripted host: ``python -m tests.lsp_server.hosted_server``.

The host leaves a second after its last client, see `tests.engine.host.scripted_host`.
"""

from __future__ import annotations

from functools import partial

from lsp_server import stdio
from lsp_server.hosted import load_hosted
from lsp_server.logs import log_to_file
from lsp_server.server import DraftlineServer

HOST = ["-m", "tests.engine.host.scripted_host", "1"]

if __name__ == "__main__":
    log_to_file()
    stdio.serve(DraftlineServer(partial(load_hosted, command=HOST)))
