"""Each setting at work, in sessions of a real client with the real server; only the model is scripted."""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types

from tests.lsp_server.session import generations, live, session, until

ANSWER = {"x = ": "foo()"}
ENDLESS = {"x = ": "x = 1\n" * 100}


async def texts(it, invoked=False, uri="file:///t.py"):
    return [item.insert_text for item in await it.inline(0, 4, uri=uri, invoked=invoked)]


async def state(it):
    return (await it.request("draftline/status", {})).state


@live
async def test_switched_off_nothing_is_loaded_or_answered_until_it_is_switched_on(tmp_path):
    async with session(tmp_path, ANSWER, configuration={"enabled": False}, progress=True) as it:
        it.open("x = ")
        assert await texts(it) == await texts(it, invoked=True) == []
        assert await state(it) == "off"
        assert it.progress == []
        it.set(enabled=True)
        await until(lambda: any(value["kind"] == "end" for value in it.progress))
        assert await texts(it) == ["foo()"]
        it.set(enabled=False)
        while await texts(it):
            pass
        it.set(enabled=True)
        while not await texts(it):
            pass
    assert sum(value["kind"] == "begin" for value in it.progress) == 1


@pytest.mark.parametrize("languages", [{"python": False}, {"*": False, "lua": True}])
@live
async def test_languages(tmp_path, languages):
    async with session(tmp_path, ANSWER, options={"languages": languages}) as it:
        it.open("x = ")
        assert await texts(it) == await texts(it, invoked=True) == []
        item = types.TextDocumentItem("file:///t.lua", "lua", 0, "x = ")
        it.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        assert await texts(it, uri="file:///t.lua") == ["foo()"]


@live
async def test_by_hand_only_what_is_asked_for_is_answered_and_nothing_is_computed_before(tmp_path):
    async with session(tmp_path, ANSWER, environment={"DRAFTLINE_TRIGGER": "manual"}) as it:
        it.open("x =")
        it.edit((0, 3), (0, 3), " ")
        assert await texts(it) == []
        assert generations(tmp_path) == []
        assert await texts(it, invoked=True) == ["foo()"]


@live
async def test_by_hand_a_popup_in_a_text_at_rest_was_asked_for(tmp_path):
    """Clients do not tell a popup that typing opens from one that the user opens."""

    async def popup(kind=types.CompletionTriggerKind.Invoked):
        document, place = types.TextDocumentIdentifier("file:///t.py"), types.Position(0, 4)
        params = types.CompletionParams(document, place, types.CompletionContext(kind))
        answer = await it.client.text_document_completion_async(params)
        return [item.text_edit.new_text for item in answer.items]

    async with session(tmp_path, ANSWER, environment={"DRAFTLINE_TRIGGER": "manual"}) as it:
        it.open("x =")
        it.edit((0, 3), (0, 3), " ")
        assert await popup() == []
        await asyncio.sleep(0.6)
        assert await popup(types.CompletionTriggerKind.TriggerForIncompleteCompletions) == []
        assert generations(tmp_path) == []
        assert await popup() == ["foo()"]
        assert len(generations(tmp_path)) <= 2  # the answer, and what follows it


@live
async def test_on_its_battery_the_machine_computes_on_request_only(tmp_path):
    async with session(tmp_path, ANSWER, options={"pauseOnBattery": True}, battery=True) as it:
        it.open("x = ")
        assert await texts(it) == []
        assert await state(it) == "paused"
        assert await texts(it, invoked=True) == ["foo()"]


@live
async def test_on_its_battery_the_machine_computes_as_ever_where_nobody_minds(tmp_path):
    async with session(tmp_path, ANSWER, battery=True) as it:
        it.open("x = ")
        assert await texts(it) == ["foo()"]


@live
async def test_a_pause_of_the_user_s_choice(tmp_path):
    async with session(tmp_path, ANSWER, options={"debounce": 5000}) as it:
        it.open("x =")
        it.edit((0, 3), (0, 3), " ")
        waiting = asyncio.ensure_future(texts(it))
        assert not (await asyncio.wait({waiting}, timeout=0.5))[0]
        assert await texts(it, invoked=True) == ["foo()"]
        assert await waiting == []  # the later request took its place


@live
async def test_how_long_a_suggestion_may_be(tmp_path):
    async with session(tmp_path, ENDLESS, options={"max_tokens": 5}) as it:
        it.open("x = ")
        (text,) = await texts(it)
        assert 0 < len(text) <= 5
    assert generations(tmp_path)[0] == 5 + 1  # the blank is written anew


@live
async def test_how_long_a_suggestion_may_take(tmp_path):
    options = {"time_limit": 500, "max_tokens": 400}
    async with session(tmp_path, ENDLESS, delay=0.05, options=options) as it:
        it.open("x = ")
        await texts(it)
        assert 0 < generations(tmp_path)[0] < 100


@live
async def test_another_seed_draws_another_text_at_once(tmp_path):
    answers = {"x = ": ["foo()", "bar()"]}
    async with session(tmp_path, answers, configuration={"temperature": 0.5}, progress=True) as it:
        it.open("x = ")
        assert await texts(it) == ["foo()"]
        it.set(temperature=0.5, seed=1)
        while await texts(it) == ["foo()"]:
            pass
        assert await texts(it) == ["bar()"]
    assert sum(value["kind"] == "begin" for value in it.progress) == 1  # nothing was loaded anew


@live
async def test_how_much_of_the_text_is_read(tmp_path):
    text = "a = 1\n" * 300
    answers = {"\nx = ": "LENGTH"}
    async with session(tmp_path, answers, options={"context_tokens": 220}) as it:
        it.open("x = \n" + text, uri="file:///t.py")
        it.open(text + "x = ", uri="file:///u.py")
        (item,) = await it.inline(300, 4, uri="file:///u.py")
    assert 0 < int(item.insert_text) <= 220


@pytest.mark.parametrize("chosen", [{}, {"cross_file": False}, {"exclude": ["other.py"]}])
@live
async def test_other_files(tmp_path, chosen):
    folder = tmp_path / "shop"
    folder.mkdir()
    other = "def charge(invoice):\n    return gateway.charge(invoice.customer, invoice.amount)\n"
    text = "receipt = gateway.charge(invoice.customer, invoice.amount)\nx = "
    (folder / "other.py").write_text(other, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    async with session(home, {"\nx = ": "LENGTH"}, options=chosen, folder=folder) as it:
        it.open(other, uri=(folder / "other.py").as_uri())
        uri = (folder / "t.py").as_uri()
        it.open("import other\n" + text, uri=uri)

        async def shown():
            it.edit((2, 4), (2, 4), " ")  # so that the answer is not the one that is remembered
            it.edit((2, 4), (2, 5), "")
            (item,) = await it.inline(2, 4, uri=uri)
            return int(item.insert_text) - len("import other\n" + text)

        if chosen:
            assert await shown() == 0
        else:
            assert await shown() >= 0  # what is read in the background may come later


@live
async def test_excluded_files_get_nothing(tmp_path):
    async with session(tmp_path, ANSWER, configuration={"exclude": ["*.gen.py"]}) as it:
        for name in ("a.gen.py", ".env", "a.py"):
            it.open("x = ", uri=f"file:///{name}")
        assert await texts(it, invoked=True, uri="file:///a.gen.py") == []
        assert await texts(it, uri="file:///a.py") == ["foo()"]
        it.set()
        while not await texts(it, uri="file:///a.gen.py"):
            pass
        assert await texts(it, uri="file:///.env") == []


@live
async def test_another_model_is_loaded_when_it_is_chosen(tmp_path):
    async with session(tmp_path, ANSWER, configuration={"model": "one"}) as it:
        it.open("x = ")
        assert (await it.ready())["model"] == "one"
        it.set(model="two")
        while (await it.ready()).get("model") != "two":
            pass
        assert await texts(it) == ["foo()"]


@live
async def test_a_project_s_file_counts_where_the_folder_is_trusted(tmp_path):
    text = 'trigger = "manual"\nserver_url = "https://example.org"\n'
    (tmp_path / ".draftline.toml").write_text(text, encoding="utf-8")
    for trusted, expected in ((False, ["foo()"]), (True, [])):
        options = {"workspaceTrusted": trusted}
        async with session(tmp_path, ANSWER, folder=tmp_path, options=options) as it:
            it.open("x = ")
            assert await texts(it) == expected
            assert len(it.messages) == trusted
    assert "server_url" in it.messages[0]


@live
async def test_a_change_in_the_user_s_file_is_seen(tmp_path):
    file = tmp_path / "settings.toml"
    async with session(tmp_path, ANSWER) as it:
        it.open("x = ")
        assert await texts(it) == ["foo()"]
        file.write_text("enabled = false\n", encoding="utf-8")
        while await texts(it):
            await asyncio.sleep(0.1)
        file.unlink()
        while not await texts(it):
            await asyncio.sleep(0.1)


@live
async def test_the_client_is_asked_at_the_start_and_again_when_something_has_changed(tmp_path):
    async with session(tmp_path, ANSWER, configuration={"seed": 1}) as it:
        assert it.asked == 1
        await until(lambda: it.registered)
        assert it.registered == [types.WORKSPACE_DID_CHANGE_CONFIGURATION]
        it.set(seed=2)
        await until(lambda: it.asked == 2)


@live
async def test_a_client_that_cannot_be_asked_sends_what_has_changed(tmp_path):
    async with session(tmp_path, ANSWER) as it:
        it.open("x = ")
        sent = types.DidChangeConfigurationParams({"draftline": {"enabled": False}})
        it.client.workspace_did_change_configuration(sent)
        while await texts(it):
            pass
    assert it.asked == 0
    assert it.registered == []


@live
async def test_a_wrong_value_is_told_once_by_name_and_the_others_hold(tmp_path):
    async with session(tmp_path, ENDLESS, options={"seed": "many", "max_tokens": 5}) as it:
        it.open("x = ")
        await texts(it)
        it.client.workspace_did_change_configuration(types.DidChangeConfigurationParams({}))
        await texts(it)
        assert await it.leave() == 0
    assert generations(tmp_path)[0] == 5 + 1
    (message,) = it.messages
    assert message.startswith("seed in the editor's settings must be a whole number")


@live
async def test_a_client_that_does_not_say_what_is_set_is_served_all_the_same(tmp_path):
    async with session(tmp_path, ANSWER, configuration="nothing of the kind", options={"seed": 1}) as it:
        it.open("x = ")
        assert await texts(it) == ["foo()"]
