"""Fixtures for the tests in editors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.editors.neovim_session import neovim, ways
from tests.engine.host.hosts import Desk, desk_of_servers


@pytest.fixture
def desk(scratch_home: Path) -> Iterator[Desk]:
    """The one place that the servers of all windows share; the model's process there is scripted."""
    with desk_of_servers(scratch_home) as it:
        yield it


@pytest.fixture(params=ways())
def way(request):
    return request.param


@pytest.fixture
def start(way, tmp_path, request):
    """Opens Neovim with a scripted server; its last screen is kept in DRAFTLINE_SCREENS, if that is set."""
    binary, native = way
    opened = []

    def start(answers=None, *, options="", **wanted):
        options = f"{{ native = {str(native).lower()}, {options} }}"
        context = neovim(binary, tmp_path, answers or {}, options=options, **wanted)
        editor = context.__enter__()
        opened.append((context, editor))
        return editor

    yield start
    for context, editor in opened:
        if folder := os.environ.get("DRAFTLINE_SCREENS"):
            name = re.sub(r"[^\w.-]+", "_", request.node.name)
            editor.dump(Path(folder) / f"{name}.txt")
        context.__exit__(None, None, None)


@pytest.fixture
def own(way):
    if way[1]:
        pytest.skip("Neovim's own drawing cannot do this")
