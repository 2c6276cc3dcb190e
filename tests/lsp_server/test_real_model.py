"""A session of a real client with the real default model; one, because loading takes seconds."""

from __future__ import annotations

import pytest
from lsprotocol import types

from tests.lsp_server.session import live, session

SERVER = ["-m", "lsp_server.cli", "--stdio"]
DOCUMENT = {"textDocument": {"uri": "file:///t.py"}}


@pytest.mark.slow
@live
async def test_the_model_completes_what_an_editor_has_open(home_with_default_model):
    async with session(home_with_default_model, command=SERVER, progress=True) as it:
        it.open("def add(a, b):\r\n    return")
        it.edit((1, 10), (1, 10), " ")
        (item,) = await it.inline(1, 11)
        assert item.insert_text == "a + b"
        assert item.range == types.Range(types.Position(1, 11), types.Position(1, 11))

        it.open("def add(a, b):\n    return a + b\n\n\nprint('😀', add())\n")
        (item,) = await it.inline(4, 16)
        assert ")" not in item.insert_text
        assert item.range.start == types.Position(4, 16)

        staged = await it.request("draftline/origins", DOCUMENT)
        where = {**DOCUMENT, "position": {"line": 4, "character": 16}}
        plain = await it.request("draftline/complete", {**where, "mode": "plain"})
        assert (staged.text, list(staged.tokens)) == (plain.text, list(plain.tokens))
        assert len(staged.origins) == len(staged.tokens)

        assert it.progress[-1]["kind"] == "end"
        it.client.protocol.send_request("draftline/complete", where)  # still under way when we leave
        assert await it.leave() == 0
        assert await it.process.stderr.read() == b""
