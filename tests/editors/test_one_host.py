"""Two windows of an editor share the one process that has the model. Only the model is scripted."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.editors.neovim_session import neovim
from tests.editors.test_neovim import NEOVIMS
from tests.engine.host.hosts import loads

SERVER = ["-m", "tests.lsp_server.hosted_server"]
ANSWERS = {"def f": "(x)", "def g": "(y)", "def h": "(z)"}


@pytest.mark.skipif(not NEOVIMS, reason="Neovim or pynvim is not installed")
@pytest.mark.parametrize("way", NEOVIMS)
def test_neovim(way, desk, tmp_path):
    model = desk.model(answers=ANSWERS)
    command = "', '".join([Path(sys.executable).as_posix(), *SERVER])
    options = f"{{ cmd = {{ '{command}' }}, init_options = {{ model = '{model.as_posix()}' }} }}"
    with ExitStack() as opened:
        windows = []
        for name in ("f", "g"):
            (tmp_path / name).mkdir()
            windows.append(opened.enter_context(neovim(way[0], tmp_path / name, {}, options=options)))
        for window, typed, shown in zip(windows, ("def f", "def g"), ("def f(x)", "def g(y)"), strict=True):
            window.keys(f"i{typed}")
            window.wait_for_screen(shown)
        assert len(loads(model)) == 1
        desk.kill()
        for window, shown in zip(windows, ("def f(x)", "def g(y)"), strict=True):
            window.keys("<Tab><CR>def h")
            window.wait_for_screen(shown, "def h(z)")
        assert len(loads(model)) == 2
