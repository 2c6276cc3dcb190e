"""The real server with the real default model in an editor.

Where ``DRAFTLINE_SCREENS`` names a folder, the screen is kept there: neovim-real.txt.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.editors.neovim_session import neovim
from tests.editors.test_neovim import NEOVIMS

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
LATE = 8.0  # seconds after which no suggestion comes by itself any more
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


@pytest.mark.skipif(not NEOVIMS, reason="Neovim or pynvim is not installed")
@pytest.mark.parametrize("way", NEOVIMS[-1:])
def test_neovim(way, home_with_default_model, tmp_path):
    server = f"{{ '{Path(sys.executable).as_posix()}', '-m', 'lsp_server.cli', '--stdio' }}"
    with neovim(
        way[0],
        tmp_path,
        {},
        options=f"{{ cmd = {server} }}",
        before="vim.o.number = true",
        file="stack.py",
        content=BEFORE.encode() + b"\n",
        size=(64, 18),
        patience=MINUTES,
    ) as editor:
        editor.keys("Gi" + TYPED)
        pictures = os.environ.get("DRAFTLINE_SCREENS")

        def taken() -> bool:
            """A busy machine may answer with a part, or too late: then what it was late with is asked for."""
            if not until(lambda: editor.lua("return require('draftline').visible()"), LATE):
                editor.keys("<BS>h" if editor.text()[-1].endswith("h") else " <BS>")
                return False
            nonlocal pictures
            if pictures:
                editor.dump(Path(pictures) / "neovim-real.txt")
                pictures = None
            editor.keys("<Tab>")
            editor.settled()
            return WRITTEN in "\n".join(editor.text())

        editor.wait(taken, "what the model writes")
        editor.keys("<Esc>:w<CR>")
        assert_pushed(editor.file.read_text("utf-8"))
