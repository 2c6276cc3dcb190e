"""The real server with the real default model in an editor.

Where ``DRAFTLINE_SCREENS`` names a folder, the suggestion is kept there as it stands on the screen:
vscode-real.png, and neovim-real.svg, which is README's picture.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.neovim_session import NEOVIMS, neovim
from tests.editors.vscode import VSCode, wait, why_not
from tests.editors.vscode_window import Window, browser

pytestmark = pytest.mark.slow

BEFORE = '''"""A stack."""


class Stack:
    def __init__(self):
        self.items = []

    def pop(self):
        return self.items.pop()

'''
TYPED = "    def push"
WRITTEN = "self.items.append("
PATIENT = 60_000  # milliseconds that the model may take for a suggestion on a busy machine
LATE = 70.0  # seconds after which none comes by itself any more
MINUTES = 5 * 60.0  # that a busy machine may take to load the model


def assert_pushed(text: str) -> None:
    """What the model wrote is there once, and nothing of what was there is lost."""
    assert text.startswith(BEFORE + TYPED + "(self, ")
    assert text.count(WRITTEN) == 1


def until(happened: Callable[[], object], seconds: float) -> bool:
    """Whether it happens within so many seconds."""
    end = time.monotonic() + seconds
    while not (value := bool(happened())) and time.monotonic() < end:
        time.sleep(0.05)
    return value


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_vscode(home_with_default_model, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "stack.py").write_text(BEFORE, encoding="utf-8")
    code = VSCode(tmp_path / "code")
    code.serve_by("lsp_server.cli", home=home_with_default_model)
    code.set({"editor.fontSize": 16, "draftline.timeLimit": PATIENT})
    with code.running(), browser() as new_page:
        it = Window(new_page(), code, folder)
        it.page.set_viewport_size({"width": 860, "height": 420})
        it.wait_for_status("Ready", MINUTES)
        it.open("stack.py")
        it.press("Control+b")  # the list of files makes room
        it.type(TYPED)

        def taken() -> bool:
            """A busy machine may answer with a part, or too late: then it is asked again."""
            if not until(it.ghost, LATE):
                it.press("Control+Alt+t")
                return False
            if WRITTEN in it.ghost():
                it.picture("real")
            it.press("Tab")
            return WRITTEN in it.saved("stack.py")

        wait("what the model writes", taken, MINUTES)
        assert_pushed(it.saved("stack.py"))


@pytest.mark.skipif(not NEOVIMS, reason="Neovim or pynvim is not installed")
@pytest.mark.parametrize("way", NEOVIMS[-1:])
def test_neovim(way, home_with_default_model, tmp_path):
    server = f"{{ '{Path(sys.executable).as_posix()}', '-m', 'lsp_server.cli', '--stdio' }}"
    with neovim(
        way[0],
        tmp_path,
        {},
        options=f"{{ cmd = {server}, init_options = {{ time_limit = {PATIENT} }} }}",
        before="vim.o.number, vim.o.laststatus = true, 2\n"
        "vim.o.statusline = \" %t%= %{v:lua.require'draftline'.statusline()} \"",
        file="stack.py",
        content=BEFORE.encode() + b"\n",
        size=(64, 15),
        patience=MINUTES,
    ) as editor:
        editor.keys("Gi" + TYPED)

        def taken() -> bool:
            """A busy machine may answer with a part, or too late: then what it was late with is asked for."""
            if not until(lambda: editor.lua("return require('draftline').visible()"), LATE):
                editor.keys("<BS>h" if editor.text()[-1].endswith("h") else " <BS>")
                return False
            if (folder := os.environ.get("DRAFTLINE_SCREENS")) and WRITTEN in "\n".join(editor.screen()):
                editor.picture(Path(folder) / "neovim-real.svg")
            editor.keys("<Tab>")
            editor.settled()
            return WRITTEN in "\n".join(editor.text())

        editor.wait(taken, "what the model writes")
        editor.keys("<Esc>:w<CR>")
        assert_pushed(editor.file.read_text("utf-8"))
