"""What the user is told of loading: a notice, and the move to the CPU where the GPU's memory is full."""

from __future__ import annotations

import pytest

from lsp_server.server import NO_ROOM
from tests.lsp_server.session import live, session


@live
async def test_where_the_first_choice_had_no_room_that_is_told_once(tmp_path):
    async with session(tmp_path, {"a": "x"}, notice="It runs on the CPU.") as it:
        it.open("a")
        (item,) = await it.inline(0, 1)
        assert await it.leave() == 0
    assert item.insert_text == "x"
    assert it.messages == ["It runs on the CPU."]


@live
async def test_when_the_gpu_s_memory_is_full_the_cpu_takes_over_and_that_is_told_once(tmp_path):
    async with session(tmp_path, {"a": "FULL", "b": "ok"}, device="cuda", progress=True) as it:
        it.open("a\nb")
        assert await it.inline(0, 1) == []
        assert (await it.ready())["state"] == "ready"
        (item,) = await it.inline(1, 1)
        assert it.messages == [NO_ROOM]
        assert await it.leave() == 0
    assert item.insert_text == "ok"
    assert [value["kind"] for value in it.progress if value["kind"] != "report"] == ["begin", "end"] * 2


@pytest.mark.parametrize("chosen", ["cpu", "auto"])
@live
async def test_on_the_cpu_a_full_memory_is_a_failure_like_others(tmp_path, chosen):
    sentence = "The GPU's memory is full: close what else uses it."
    async with session(tmp_path, {"a": "FULL", "b": "ok"}, options={"device": chosen}) as it:
        it.open("a\nb")
        assert [await it.inline(0, 1) for _ in range(2)] == [[], []]
        (item,) = await it.inline(1, 1)
        assert await it.leave() == 0
    assert item.insert_text == "ok"
    assert it.messages == [sentence]
