"""What `draftline/status` tells of suggestions, after a session in which some were taken."""

from __future__ import annotations

from lsprotocol import types

from lsp_server.server import ACCEPTED
from tests.lsp_server.session import live, session


async def counts(it):
    return (await it.request("draftline/status", {})).suggestions._asdict()


@live
async def test_what_became_of_suggestions_is_seen_from_the_edits(tmp_path):
    async with session(tmp_path, {"x = ": "foo(1)", "y = ": "bar(2)", "z = ": "baz(3)"}) as it:
        it.open("x = ")
        await it.inline(0, 4)
        it.edit((0, 4), (0, 4), "foo(1)")
        it.edit((0, 10), (0, 10), "\ny = ")
        await it.inline(1, 4)
        it.edit((1, 4), (1, 4), "bar(")
        it.edit((1, 8), (1, 8), "7)\nz = ")
        await it.inline(2, 4)
        it.edit((2, 4), (2, 4), "7")
        assert await counts(it) == {"shown": 3, "accepted": 1, "partly": 1, "rejected": 1}


@live
async def test_an_editor_that_runs_the_item_s_command_tells_that_it_was_accepted(tmp_path):
    async with session(tmp_path, {"x = ": ["foo( 1 )", "bar( 1 )"]}) as it:
        assert it.initialized.capabilities.execute_command_provider.commands == (ACCEPTED,)
        it.open("x = ")
        first, second = await it.inline(0, 4, invoked=True)
        it.edit((0, 4), (0, 4), "bar(1)")  # as the editor's formatter has it
        assert (await counts(it))["rejected"] == 1
        command = types.ExecuteCommandParams(second.command.command, second.command.arguments)
        for _ in range(2):
            await it.client.workspace_execute_command_async(command)
        assert await counts(it) == {"shown": 1, "accepted": 1, "partly": 0, "rejected": 0}
    assert first.command.arguments == second.command.arguments


@live
async def test_the_popup_s_item_tells_it_too(tmp_path):
    async with session(tmp_path, {"x = ": "foo()"}, inline=False) as it:
        it.open("x = ")
        place = types.CompletionParams(types.TextDocumentIdentifier("file:///t.py"), types.Position(0, 4))
        answer = await it.client.text_document_completion_async(place)
        (item,) = answer.items
        command = types.ExecuteCommandParams(item.command.command, item.command.arguments)
        await it.client.workspace_execute_command_async(command)
        assert (await counts(it))["accepted"] == 1
