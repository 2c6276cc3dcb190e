"""A real client's session whose suggestions come from a team's server."""

from __future__ import annotations

import asyncio

import pytest

from tests.lsp_server.completions_server import MODEL, Handler, Server, serving
from tests.lsp_server.session import live, session, until

COMMAND = ["-m", "lsp_server.cli", "--stdio"]
KEY = "sk-secret-1234"


def by(server):
    return {"backend": "openai", "serverUrl": server.url, "serverModel": MODEL}


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("DRAFTLINE_API_KEY", KEY)


@live
async def test_suggestions_come_from_the_server_and_no_model_is_needed_here(tmp_path):
    with serving(Server({"x = ": "foo(a)"})) as server:
        async with session(tmp_path, command=COMMAND, options=by(server)) as it:
            status = await it.ready()
            assert (status["state"], status["leavesMachine"], status["model"]) == ("ready", True, MODEL)
            it.open("y = 1\nx = ")
            assert [item.insert_text for item in await it.inline(1, 4)] == ["foo(a)"]
            assert it.messages == []
            await it.leave()
    assert server.prompts[0] == "<|file_sep|>t.py\n<|fim_prefix|>y = 1\nx =<|fim_suffix|><|fim_middle|>"
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    written = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.log"))
    assert written
    assert KEY not in written
    assert "y = 1" not in written


@live
async def test_a_failure_is_told_once_and_the_server_asked_again(tmp_path):
    failing = Server({"x = ": "foo(a)"}, lambda handler, asked: handler.json({}, 503))
    with serving(failing) as server:
        async with session(tmp_path, command=COMMAND, options=by(server)) as it:
            it.open("x = ")
            for _ in range(3):
                assert await it.inline(0, 4) == []
            await until(lambda: it.messages)
            assert len(it.messages) == 1
            assert "has too much to do (503)" in it.messages[0]
            assert KEY not in it.messages[0]
            assert (await it.ready())["state"] == "ready"
            server.answer = Handler.write
            while not await it.inline(0, 4):
                pass
            assert len(it.messages) == 1
            await it.leave()


@live
async def test_typing_on_gives_the_server_up(tmp_path):
    with serving(Server({"x = ": "foo(a, b, c, d, e, f, g)"}, step=1, delay=2.0)) as server:
        options = {**by(server), "timeLimit": 60_000}  # so that it is not the time that gives it up
        async with session(tmp_path, command=COMMAND, options=options) as it:
            it.open("x = ")
            answer = asyncio.ensure_future(it.inline(0, 4))
            await until(lambda: server.asked)
            it.edit((0, 4), (0, 4), "z")
            await answer
            await until(server.hung_up.is_set)
            await it.leave()


@live
async def test_a_server_that_is_not_named_is_asked_for(tmp_path):
    async with session(tmp_path, command=COMMAND, options={"backend": "openai"}) as it:
        status = await it.ready()
        assert status["state"] == "error"
        assert "server_url" in status["message"]
        await it.leave()


@live
async def test_no_project_can_name_a_server(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    with serving(Server()) as server:
        lines = ['backend = "openai"', f'server_url = "{server.url}"', f'server_model = "{MODEL}"']
        (project / ".draftline.toml").write_text("\n".join(lines), "utf-8")
        options = {"workspaceTrusted": True}
        async with session(tmp_path, command=COMMAND, options=options, folder=project) as it:
            assert not (await it.ready())["leavesMachine"]
            await it.leave()
    assert server.paths == []
