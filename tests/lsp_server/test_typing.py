"""Sessions in which a user types: what the server answers, and how often it asks the model."""

from __future__ import annotations

import asyncio

from lsprotocol import types

from tests.lsp_server.session import generations, live, session, until


@live
async def test_twenty_changes_close_together_are_one_generation_and_then_all_is_quiet(tmp_path):
    async with session(tmp_path, {"t" * 20: "!"}) as it:
        it.open("")
        requests = []
        for column in range(20):
            it.edit((0, column), (0, column), "t")
            requests.append(asyncio.ensure_future(it.inline(0, column + 1)))
        answers = await asyncio.gather(*requests)
        await until(lambda: len(generations(tmp_path)) == 2)
        assert await it.leave() == 0
    assert [[item.insert_text for item in answer] for answer in answers] == [[]] * 19 + [["!"]]
    assert len(generations(tmp_path)) == 2  # the answer, and a look ahead


@live
async def test_typing_through_a_suggestion_asks_the_model_for_nothing_more(tmp_path):
    async with session(tmp_path, {"x = ": "foo(a,\n    b)"}) as it:
        it.open("x = ")
        await it.inline(0, 4)
        await until(lambda: len(generations(tmp_path)) == 2)
        it.edit((0, 4), (0, 4), "foo(a,")
        (item,) = await it.inline(0, 10)
        assert item.insert_text == "\n    b)"
        it.edit((0, 10), (0, 10), "\n    ")
        (item,) = await it.inline(1, 4)
        assert item.insert_text == "b)"
        it.edit((0, 4), (1, 4), "")
        (item,) = await it.inline(0, 4)
        assert item.insert_text == "foo(a,\n    b)"
        assert item.range.start == types.Position(0, 4)
    assert len(generations(tmp_path)) == 2


@live
async def test_whoever_asks_gets_several_suggestions_with_the_same_range(tmp_path):
    async with session(tmp_path, {"x = ": ["foo", "bar", "foo", "baz"]}) as it:
        it.open("x = ")
        items = await it.inline(0, 4, invoked=True)
        it.edit((0, 4), (0, 4), "ba")
        left = await it.inline(0, 6)
    assert [item.insert_text for item in items] == ["foo", "bar", "baz"]
    assert {(item.range.start.character, item.range.end.character) for item in items} == {(4, 4)}
    assert [item.insert_text for item in left] == ["r", "z"]


@live
async def test_a_file_of_secrets_gets_no_suggestion_and_the_model_nothing(tmp_path):
    async with session(tmp_path, {"KEY=": "abc"}) as it:
        for uri in ("file:///p/.env", "untitled:.env.local", "file:///p/id_rsa"):
            it.open("KEY=", uri)
            assert await it.inline(0, 4, uri) == []
            assert await it.inline(0, 4, uri, invoked=True) == []
            asked = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": 4}}
            assert await it.request("draftline/complete", asked) is None
    assert generations(tmp_path) == []
