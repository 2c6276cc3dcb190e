"""What the server tells of how it is, whenever that changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from lsp_server.status import State
from tests.lsp_server.session import live, session, until

PAGE = (Path(__file__).parents[2] / "editors" / "STATUS.md").read_text(encoding="utf-8")

TOLD = {"statusNotifications": True}


def states(it):
    return [status["state"] for status in it.statuses]


@live
async def test_from_loading_to_a_suggestion(tmp_path):
    async with session(tmp_path, {"x = ": "foo()"}, load="slow", options=TOLD) as it:
        await until(lambda: "ready" in states(it))
        it.open("x = ")
        await it.inline(0, 4)
        await until(lambda: states(it)[-2:] == ["working", "ready"])
    loading = [status for status in it.statuses if status["state"] == "loading"]
    assert [status["percent"] for status in loading][:2] == [0, 25]
    assert states(it)[len(loading) :] == ["ready", "working", "ready"]
    last = it.statuses[-1]
    assert (last["model"], last["device"], last["weights"]) == ("scripted", "cpu", "fp32")
    assert not any(status["leavesMachine"] for status in it.statuses)


@live
async def test_the_same_is_not_told_twice(tmp_path):
    async with session(tmp_path, {"x = ": "foo()"}, options=TOLD) as it:
        await until(lambda: "ready" in states(it))
        it.open("x = ")
        for _ in range(3):
            await it.inline(0, 4)
        await it.ready()
    assert all(one != other for one, other in zip(it.statuses, it.statuses[1:], strict=False))


@live
async def test_an_error_comes_with_its_reason(tmp_path):
    sentence = "The model is not installed; run `model-setup fetch`."
    async with session(tmp_path, load=sentence, options=TOLD) as it:
        await until(lambda: "error" in states(it))
    assert it.statuses[-1]["message"] == sentence


@live
async def test_switching_off_and_on_is_told(tmp_path):
    async with session(tmp_path, options=TOLD, configuration={"enabled": False}) as it:
        await until(lambda: states(it) == ["off"])
        it.set(enabled=True)
        await until(lambda: states(it)[-1] == "ready")
        it.set(enabled=False)
        await until(lambda: states(it)[-1] == "off")


@live
async def test_a_pause_on_the_battery_is_told(tmp_path):
    async with session(tmp_path, options={**TOLD, "pause_on_battery": True}, battery=True) as it:
        await until(lambda: states(it)[-1:] == ["paused"])
    assert "battery" in it.statuses[-1]["message"]


@live
async def test_a_client_that_did_not_ask_for_it_is_told_nothing(tmp_path):
    async with session(tmp_path, {"x = ": "foo()"}) as it:
        it.open("x = ")
        await it.inline(0, 4)
        assert (await it.ready())["state"] == "ready"
    assert it.statuses == []


@live
async def test_the_page_for_those_who_write_clients_names_all_that_is_told(tmp_path):
    async with session(tmp_path, load="slow", options=TOLD) as it:
        await until(lambda: "ready" in states(it))
    told = {name for status in it.statuses for name in status}
    named = PAGE[PAGE.index("A notification from server to client") :]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", named, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert set(names) == {*told, *get_args(State)}
