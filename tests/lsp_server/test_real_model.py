"""Sessions of a real client with the real default model in the real host; few, for loading takes seconds."""

from __future__ import annotations

import pytest
from lsprotocol import types

from tests.lsp_server.session import Session, live, session

SERVER = ["-m", "lsp_server.cli", "--stdio"]
DOCUMENT = {"textDocument": {"uri": "file:///t.py"}}
PATIENT = {"time_limit": 60_000}  # the machine may be busy


async def answered(it: Session, line: int, column: int) -> types.InlineCompletionItem:
    """The suggestion there. On a machine so busy that the time is up before it, it is computed all the same,
    and asking again gets it."""
    while not (items := await it.inline(line, column)):
        pass
    return items[0]


@pytest.mark.slow
@live
async def test_the_model_completes_what_an_editor_has_open(home_with_default_model):
    home = home_with_default_model
    async with session(home, command=SERVER, options=PATIENT, progress=True) as it:
        it.open("def add(a, b):\r\n    return")
        it.edit((1, 10), (1, 10), " ")
        item = await answered(it, 1, 11)
        assert item.insert_text == "a + b"
        assert item.range == types.Range(types.Position(1, 11), types.Position(1, 11))

        it.open("def add(a, b):\n    return a + b\n\n\nprint('😀', add())\n")
        item = await answered(it, 4, 16)
        assert ")" not in item.insert_text
        assert item.range.start == types.Position(4, 16)

        staged = await it.request("draftline/origins", DOCUMENT)
        where = {**DOCUMENT, "position": {"line": 4, "character": 16}}
        plain = await it.request("draftline/complete", {**where, "mode": "plain"})
        assert (staged.text, list(staged.tokens)) == (plain.text, list(plain.tokens))
        assert len(staged.origins) == len(staged.tokens)

        # after Enter, the editor having indented (llama.vscode 72), and below what other servers take for
        # their own marks (Continue 1552, 867)
        it.open("# <|fim_middle|> <EOT> <|endoftext|> <|fim_pad|>\n\ndef area(width, height):\n    ")
        item = await answered(it, 3, 4)
        assert item.insert_text == "return width * height"

        # a second window: the model is there already, and writes the same
        async with session(home, command=SERVER, options=PATIENT) as other:
            other.open("def area(width, height):\n    ")
            item = await answered(other, 1, 4)
            assert item.insert_text == "return width * height"
            assert await other.leave() == 0

        assert it.progress[-1]["kind"] == "end"
        it.client.protocol.send_request("draftline/complete", where)  # still under way when we leave
        assert await it.leave() == 0
        assert await it.process.stderr.read() == b""
