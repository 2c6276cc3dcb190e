"""Windows share the one process that has the model, and outlive it. Only the model is scripted."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lsp_server.host_command import stop
from tests.editors.neovim_session import neovim
from tests.engine.host.hosts import loads

SERVER = ["-m", "tests.lsp_server.hosted_server"]
ANSWERS = {"def f": "(x)", "def g": "(y)", "def h": "(z)"}


@pytest.fixture
def opened(way, tmp_path):
    """Opens a Neovim whose server has the host load this model; the name tells one window from another."""
    binary, native = way
    command = "', '".join([Path(sys.executable).as_posix(), *SERVER])
    with ExitStack() as windows:

        def opened(name, model):
            (tmp_path / name).mkdir()
            options = (
                f"{{ cmd = {{ '{command}' }}, init_options = {{ model = '{model.as_posix()}' }}, "
                f"native = {str(native).lower()} }}"
            )
            return windows.enter_context(neovim(binary, tmp_path / name, {}, options=options))

        yield opened


def test_two_windows_load_the_model_once_and_show_suggestions_again_when_it_died(opened, desk):
    model = desk.model(answers=ANSWERS, load_seconds=2.0)
    windows = [opened(name, model) for name in ("f", "g")]
    for window, typed, shown in zip(windows, ("def f", "def g"), ("def f(x)", "def g(y)"), strict=True):
        window.keys(f"i{typed}")
        window.wait_for_screen(shown)
    assert len(loads(model)) == 1
    desk.kill()
    for window in windows:
        window.keys("<Tab><CR>def h")  # while it is being loaded, and no key after that
    for window, shown in zip(windows, ("def f(x)", "def g(y)"), strict=True):
        window.wait_for_screen(shown, "def h(z)")
    assert len(loads(model)) == 2


def test_a_suggestion_that_was_being_made_when_it_died_comes_by_itself(opened, desk):
    model = desk.model(answers=ANSWERS, delay=0.2)
    window = opened("f", model)
    window.keys("idef f")
    window.wait_for_state("working")
    desk.kill()
    window.wait_for_screen("def f(x)")
    assert len(loads(model)) == 2


def test_a_model_that_was_unloaded_is_back_with_the_next_key(opened, desk):
    model = desk.model(answers=ANSWERS, load_seconds=1.0)
    window = opened("f", model)
    stop()
    window.wait_for_state("paused")
    window.keys("idef f")
    window.wait_for_screen("def f(x)")
    assert len(loads(model)) == 2
