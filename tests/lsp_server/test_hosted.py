"""Editor windows that share a host: each a real client with a real server; only the model is scripted."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from lsp_server.server import NO_ROOM
from model_setup.store import draft_directory, write_manifest
from tests.engine.host.hosts import Desk, desk_of_servers, generations, loads
from tests.engine.host.scripted_host import ENDLESS
from tests.lsp_server.session import ROOT, Session, live, session, until

SERVER = ["-m", "tests.lsp_server.hosted_server"]


@pytest.fixture
def desk(scratch_home: Path) -> Iterator[Desk]:
    with desk_of_servers(scratch_home) as it:
        yield it


@asynccontextmanager
async def window(desk: Desk, model: Path, wait: bool = True, **options: Any) -> AsyncIterator[Session]:
    options = {"model": str(model), **options}
    async with session(desk.home, command=SERVER, options=options, wait=wait, progress=True) as it:
        yield it


async def state(it: Session) -> str:
    return (await it.request("draftline/status", {})).state


async def texts(it: Session, line: int, column: int) -> list[str]:
    return [item.insert_text for item in await it.inline(line, column)]


async def suggested(it: Session, column: int, expected: str) -> None:
    """Type on until the suggestion comes, as a user does after something went wrong."""
    while await texts(it, 0, column) != [expected]:
        await asyncio.sleep(0.05)


@live
async def test_two_windows_share_one_model(desk):
    model = desk.model(answers={"a": "one", "b": "two"})
    async with window(desk, model, wait=False) as first, window(desk, model, wait=False) as second:
        for it, document in ((first, "a"), (second, "b")):
            assert (await it.ready()).get("model") == "model", await it.request("draftline/status", {})
            it.open(document)
        found = await asyncio.gather(texts(first, 0, 1), texts(second, 0, 1))
    assert found == [["one"], ["two"]]
    assert len(loads(model)) == 1


@live
async def test_progress_of_the_host_is_shown(desk):
    async with window(desk, desk.model(load_seconds=0.3)) as it:
        await until(lambda: any(value["kind"] == "end" for value in it.progress))
    assert 25 in [value.get("percentage") for value in it.progress]


@live
async def test_each_repository_guesses_with_its_own_table_and_draft(desk, tmp_path):
    model, repository = desk.model(answers={"a": "one"}), tmp_path / "repository"
    repository.mkdir()
    draft = draft_directory(repository, "model")
    async with window(desk, model, repository=str(repository)) as it:
        it.open("a")
        assert await texts(it, 0, 1) == ["one"]
        draft.mkdir(parents=True)
        write_manifest(draft, source="here", source_sha256="")
        it.edit((0, 0), (0, 0), " ")
        assert await texts(it, 0, 2) == ["one"]
        assert await it.leave() == 0
    before, after = dict.fromkeys(guesses for *_, guesses in generations(model))
    assert len(before.split()) == 2
    assert after == f"model {before}"


@live
async def test_a_table_that_was_named_and_cannot_be_used_is_told(desk):
    model = desk.model(answers={"a": "one"})
    async with window(desk, model, draft2="missing.trigram") as it:
        assert await state(it) == "error"
        (message,) = it.messages
        assert f"no trigram table at {Path('missing.trigram').absolute()}" in message
        assert await it.leave() == 0


@live
async def test_a_model_that_nobody_uses_is_unloaded_and_the_next_keystroke_brings_it_back(desk):
    model = desk.model(answers={"a": "one"})
    async with window(desk, model, idle_minutes=0.005) as it:
        it.open("a")
        while await state(it) != "paused":
            await asyncio.sleep(0.05)
        assert "unloaded" in (await it.request("draftline/status", {})).message
        await until(lambda: desk.process not in (None, *loads(model)))
        waiting = desk.process
        assert await texts(it, 0, 1) == []
        await suggested(it, 1, "one")
        assert it.messages == []
    assert loads(model)[1] == waiting


@live
async def test_no_host_waits_where_suggestions_are_off(desk):
    model = desk.model(answers={"a": "one"})
    chosen = {"model": str(model), "idleMinutes": 0.005}
    async with session(desk.home, command=SERVER, configuration=chosen) as it:
        it.open("a")
        await until(lambda: desk.process not in (None, *loads(model)))
        it.set(**chosen, enabled=False)
        await until(lambda: desk.process is None)
        it.set(**chosen, enabled=True)
        await suggested(it, 1, "one")
        it.set(**chosen, enabled=False)
        while await state(it) != "off":
            await asyncio.sleep(0.05)
        await until(lambda: desk.process is None)
        await asyncio.sleep(0.5)
        assert desk.process is None


@live
async def test_another_idle_time_counts_at_once(desk):
    model = desk.model(answers={"a": "one"})
    chosen = {"model": str(model)}
    async with session(desk.home, command=SERVER, configuration=chosen) as it:
        it.open("a")
        assert await texts(it, 0, 1) == ["one"]
        it.set(**chosen, idleMinutes=0.005)
        while await state(it) != "paused":
            await asyncio.sleep(0.05)
    assert len(loads(model)) == 1


@live
async def test_when_the_host_is_killed_every_request_is_answered_and_suggestions_come_back(desk):
    model = desk.model(answers={"a": ENDLESS, "b": "ok"}, delay=0.02)
    async with window(desk, model) as it:
        it.open("a")
        for _ in range(3):
            request = asyncio.ensure_future(it.inline(0, 1))
            await asyncio.sleep(0.15)
            desk.kill()
            await request
            it.edit((0, 0), (0, 1), "b")
            await suggested(it, 1, "ok")
            it.edit((0, 0), (0, 1), "a")
        assert it.messages == []
        assert await it.leave() == 0
    assert len(set(loads(model))) == 4


@live
async def test_a_host_that_keeps_dying_is_told_once_and_no_request_hangs(desk):
    model = desk.model(load="die")
    async with window(desk, model) as it:
        it.open("a")
        assert [await texts(it, 0, 1) for _ in range(3)] == [[], [], []]
        assert await state(it) == "error"
        (message,) = it.messages
        assert await it.leave() == 0
    assert "while it was loading" in message
    assert len(loads(model)) == 2


@live
async def test_when_the_gpu_is_full_the_cpu_takes_over_in_the_host_too(desk):
    model = desk.model(answers={"a": "FULL", "b": "ok"})
    async with window(desk, model) as it:
        it.open("a")
        assert await texts(it, 0, 1) == []
        it.edit((0, 0), (0, 1), "b")
        await suggested(it, 1, "ok")
        status = await it.request("draftline/status", {})
        assert it.messages == [NO_ROOM]
    assert status.device == "cpu"
    assert len(set(loads(model))) == 1


@live
async def test_the_host_outlives_the_editor_and_leaves_after_a_while(desk):
    async with window(desk, desk.model()) as it:
        process = desk.process
        it.process.kill()
        await it.process.wait()
        assert desk.process == process
    await until(lambda: desk.process is None)


@live
async def test_a_server_whose_model_is_in_the_host_has_no_pytorch(desk):
    async with window(desk, desk.model(answers={"a": "one"})) as it:
        it.open("a")
        assert await texts(it, 0, 1) == ["one"]
        if sys.platform == "linux":
            maps = Path(f"/proc/{it.process.pid}/maps").read_text("utf-8")
            assert "_multiprocessing" in maps or "tokenizers" in maps
            assert "libtorch" not in maps


def draftline(*arguments: str) -> str:
    command = [sys.executable, "-m", "lsp_server.cli", *arguments]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_where_there_is_no_host_that_is_said(desk):
    assert "No model is loaded" in draftline("status")
    assert json.loads(draftline("status", "--json")) == []
    assert "No model is loaded" in draftline("stop")


@live
async def test_status_tells_of_the_host_and_stop_ends_it_until_the_next_keystroke(desk):
    model = desk.model(answers={"a": "one"})
    async with window(desk, model) as it:
        it.open("a")
        assert await texts(it, 0, 1) == ["one"]
        (told,) = json.loads(await asyncio.to_thread(draftline, "status", "--json"))
        assert (told["process"], told["clients"], told["models"][0]["name"]) == (desk.process, 1, "model")
        assert told["tokens"] >= 3
        text = await asyncio.to_thread(draftline, "status")
        assert "model on auto" in text
        assert "tok/s" in text
        process = desk.process
        assert "has ended" in await asyncio.to_thread(draftline, "stop")
        await until(lambda: not psutil.pid_exists(process))
        while await state(it) != "paused":
            await asyncio.sleep(0.02)
        it.edit((0, 0), (0, 0), " ")
        await suggested(it, 2, "one")
        assert it.messages == []
