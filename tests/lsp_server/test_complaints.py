"""What users of other completion servers complained of, each as a session with a real client.

The numbers are those of the projects' issues. Complaints that other files here test by their subject are
not repeated: brackets closed twice, positions and line ends, the popup's selected item, cancelling, secrets,
failures told once (test_server, test_typing), indentation after Enter and special tokens in the text
(test_real_model), what is drawn and which keys do it (tests/editors).
"""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types

from tests.lsp_server.session import generations, live, session, until


@live
async def test_lines_that_stand_below_are_not_written_again(tmp_path):
    """llama.vim 71."""
    async with session(tmp_path, {"a=1\n": "x=0\nb=2\nc=3\n"}) as it:
        it.open("a=1\n\nb=2\nc=3")
        (item,) = await it.inline(1, 0)
    assert item.insert_text == "x=0"


@live
async def test_above_a_function_s_body_the_body_is_not_repeated(tmp_path):
    """Continue 4721."""
    body = "    total = 0\n    for one in many:\n        total += one\n    return total\n"
    async with session(tmp_path, {"def add(many):\n": body}) as it:
        it.open("def add(many):\n\n" + body)
        items = await it.inline(1, 0)
    assert items == []


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 19), ("utf-16", 13), ("utf-32", 13)])
@live
async def test_behind_cyrillic_the_range_is_in_the_client_s_units(tmp_path, encoding, column):
    """copilot.lua 330."""
    async with session(tmp_path, {" + ": "name"}, encodings=[encoding]) as it:
        it.open('s="привет" + ')
        (item,) = await it.inline(0, column)
    assert item.range == types.Range(types.Position(0, column), types.Position(0, column))


@pytest.mark.parametrize(
    "uri", ["vscode-notebook-cell:/w/book.ipynb#W0sZ", "untitled:Untitled-1", "vscode-vfs://github/a/b.py"]
)
@live
async def test_cells_and_unsaved_files_are_documents_like_any_other(tmp_path, uri):
    """llm-vscode 77."""
    async with session(tmp_path, {"x = ": "1"}) as it:
        it.open("x = ", uri)
        (item,) = await it.inline(0, 4, uri)
        assert it.messages == []
    assert item.insert_text == "1"


@pytest.mark.parametrize(
    "uri", ["telescope://prompt", "", "file:///never/opened.py", "not a uri", "file://[x"]
)
@live
async def test_a_buffer_that_was_never_opened_gets_an_empty_answer(tmp_path, uri):
    """llm.nvim 54."""
    async with session(tmp_path, {"": "1"}) as it:
        assert await it.inline(0, 0, uri) == []
        assert it.messages == []
    assert generations(tmp_path) == []


@live
async def test_a_file_of_16_000_lines_costs_the_model_what_a_short_one_does(tmp_path):
    """Continue 2202: how much is read of it is bounded, and each edit moves a few lines only."""
    async with session(tmp_path, {"value = ": "LENGTH"}) as it:
        lengths = []
        for count in (2_000, 16_000):
            lines = [f"name_{number:05} = {'x' * 60}\n" for number in range(count)]
            it.open("".join(lines), f"file:///{count}.py")
            it.edit((count // 2, 0), (count // 2, 0), "value = \n", f"file:///{count}.py")
            (item,) = await it.inline(count // 2, 8, f"file:///{count}.py")
            lengths.append(int(item.insert_text))
    # not equal: where a prompt begins goes by steps, and how long the first one is by a guess of the pace
    assert 0 < lengths[1] < 2 * lengths[0]


@live
async def test_a_line_of_two_megabytes_is_answered(tmp_path):
    async with session(tmp_path, {"x = ": "1"}) as it:
        it.open("y" * 2_000_000 + "\nx = \n" + "z" * 2_000_000)
        (item,) = await it.inline(1, 4)
        it.edit((0, 1_000_000), (0, 1_000_000), "x = ")
        await it.inline(0, 1_000_004)
        it.edit((0, 0), (1, 0), "")
        (after,) = await it.inline(0, 4)
    assert item.insert_text == after.insert_text == "1"


@live
async def test_the_same_mistake_at_every_key_is_one_notice(tmp_path):
    """llama.vim 61."""
    async with session(tmp_path, {"t": "CRASH"}) as it:
        it.open("")
        for column in range(5):
            it.edit((0, column), (0, column), "t")
            assert await it.inline(0, column + 1) == []
        assert len(it.messages) == 1


@live
async def test_after_a_rejected_suggestion_the_model_is_idle(tmp_path):
    """Continue 764: typing something else ends what was being computed ahead."""
    async with session(tmp_path, {"x = ": "1", "x = 1": "\n" * 3 + "y" * 60}, delay=0.05) as it:
        it.open("x = ")
        await it.inline(0, 4)
        it.edit((0, 4), (0, 4), "'")
        await until(lambda: len(generations(tmp_path)) == 2)
        before = generations(tmp_path)
        await asyncio.sleep(0.3)
    assert generations(tmp_path) == before
    assert before[1] < 60


@live
async def test_a_version_that_goes_back_changes_nothing_about_the_text(tmp_path):
    async with session(tmp_path, {"y = ": "2", "x = ": "1"}) as it:
        it.version = 9
        it.open("x = ")
        it.version = 3
        it.edit((0, 0), (0, 1), "y")
        (item,) = await it.inline(0, 4)
    assert item.insert_text == "2"


@live
async def test_a_client_that_sends_the_whole_text_is_understood(tmp_path):
    async with session(tmp_path, {"y = ": "2"}) as it:
        it.open("x = ")
        document = types.VersionedTextDocumentIdentifier(uri="file:///t.py", version=2)
        whole = types.TextDocumentContentChangeWholeDocument("я\r\ny = ")
        it.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [whole]))
        (item,) = await it.inline(1, 4)
    assert item.insert_text == "2"


@live
async def test_a_document_with_every_line_end_is_edited_where_the_client_means(tmp_path):
    async with session(tmp_path, {"d = ": "4"}) as it:
        it.open("a\nb\r\nc\rd")
        it.edit((3, 1), (3, 1), " = ")
        (item,) = await it.inline(3, 4)
    assert item.range.start == types.Position(3, 4)
    assert item.insert_text == "4"


@live
async def test_an_edit_while_the_model_writes_is_in_the_next_answer(tmp_path):
    """The position a client accepts at is one that it has just typed to (neovim 36529)."""
    async with session(tmp_path, {"x = ": "foo(a)", "x = b": "ar"}, delay=0.05) as it:
        it.open("x = ")
        asked = asyncio.ensure_future(it.inline(0, 4))
        await asyncio.sleep(0.1)
        it.edit((0, 4), (0, 4), "b")
        (item,) = await it.inline(0, 5)
        assert await asked == []
    assert item.insert_text == "ar"
    assert item.range.start == types.Position(0, 5)
