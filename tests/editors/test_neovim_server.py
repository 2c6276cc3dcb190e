"""The server in Neovim's hands: started, told of, started again."""

from __future__ import annotations

import os
import signal

import pytest

from tests.editors.neovim_session import neovim


def test_the_server_is_started_again_when_it_dies(start):
    editor = start({"def f": "(x)"})
    killed = editor.server_process()
    os.kill(killed, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
    editor.wait(lambda: editor.server_process() not in (None, killed), "another server")
    editor.wait_for_state("ready")
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")


def test_a_server_that_keeps_dying_is_left_alone(start):
    editor = start({"def f": "(x)"})
    for _ in range(4):
        editor.wait(editor.server_process, "a server")
        editor.wait_for_state("ready")
        killed = editor.server_process()
        os.kill(killed, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)
        editor.wait(lambda killed=killed: editor.server_process() != killed, "its end")
    editor.wait_for_state("error")
    assert "died several times within a minute" in editor.messages()
    editor.keys(":Draftline restart<CR>")
    editor.wait_for_state("ready")


def test_restarting(start):
    editor = start({"def f": "(x)"})
    before = editor.server_process()
    editor.keys(":Draftline restart<CR>")
    editor.wait(lambda: editor.server_process() not in (None, before), "another server")
    editor.wait_for_state("ready")
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")


def test_a_second_setup_with_other_settings_starts_the_server_anew(start):
    editor = start({"def f": "(x)"})
    before = editor.server_process()
    again = "local own = require('draftline.config').current; require('draftline').setup({ cmd = own.cmd, "
    editor.lua(again + "native = own.native })")
    editor.settled()
    assert editor.server_process() == before
    editor.lua(again + "native = own.native, init_options = { weights = 'fp32' } })")
    editor.wait(lambda: editor.server_process() not in (None, before), "another server")
    editor.wait_for_state("ready")
    assert editor.lua("return vim.lsp.get_clients()[1].config.init_options") == {
        "weights": "fp32",
        "statusNotifications": True,
    }
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")


def test_each_repository_has_a_server_with_a_state_of_its_own(start, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / ".git").mkdir(parents=True)
        (tmp_path / name / "a.py").write_text("\n", encoding="utf-8")
    editor = start(file="one/a.py")
    editor.keys(f":e {tmp_path / 'two' / 'a.py'}<CR>")
    editor.wait(lambda: editor.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 1, "its server")
    editor.wait_for_state("ready")
    editor.lua(
        """
        local server = vim.lsp.get_clients({ name = 'draftline', bufnr = 0 })[1]
        local told = { state = 'loading', message = '', percent = 50 }
        server.handlers['draftline/status'](nil, told, { client_id = server.id })
        """
    )
    assert editor.statusline() == "Draftline loading 50"
    editor.keys("<C-^>")
    assert editor.statusline() == "Draftline ready"
    editor.keys(":checkhealth draftline<CR>")
    report = "\n".join(editor.text())
    for name, state in (("one", "ready"), ("two", "loading")):
        assert f"for 1 buffers in {tmp_path / name}: {state}" in report


def test_the_states_on_the_statusline(start):
    editor = start({"def f": "(x)"}, delay=0.3)
    assert editor.statusline() == "Draftline ready"
    editor.keys("idef f")
    editor.wait_for_state("working")
    editor.wait_for_state("ready")


def test_loading_on_the_statusline(start):
    editor = start(load="never", wait=False)
    editor.wait_for_state("loading 25")


def test_what_was_typed_while_the_model_was_loaded_has_its_suggestion_then(start):
    editor = start({"def f": "(x)"}, load="slow", wait=False)
    editor.wait(lambda: editor.statusline().startswith("Draftline loading"), "the start")
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")


def test_a_model_that_cannot_be_loaded_on_the_statusline(start):
    editor = start(load="The model is damaged; fetch it again.", wait=False)
    editor.wait_for_state("error")
    editor.keys(":Draftline status<CR>")
    editor.wait(lambda: "error: The model is damaged" in editor.messages(), "the reason")


def test_the_status_command(start):
    editor = start()
    editor.keys(":Draftline status<CR>")
    editor.wait(lambda: "model scripted, device cpu, weights fp32" in editor.messages(), "the status")


def test_draftline_draws_unless_neovim_is_wanted_to(way, tmp_path):
    with neovim(way[0], tmp_path, {}) as editor:
        editor.keys(":Draftline status<CR>")
        editor.wait(lambda: "drawn by Draftline" in editor.messages(), "who draws")


def test_neovim_is_not_wanted_to_draw_before_it_can(way, tmp_path):
    with neovim(way[0], tmp_path, {}, options="{ native = true }") as editor:
        can = editor.lua("return vim.lsp.inline_completion ~= nil")
        assert editor.lua("return require('draftline.config').current.native") == can
        assert ("native needs Neovim 0.12" in editor.messages()) != can


def test_the_server_can_be_used_without_the_plugin(way, tmp_path):
    binary, native = way
    if not native:
        pytest.skip("Neovim before 0.12 shows no suggestions by itself")
    with neovim(binary, tmp_path, {"def f": "(x)"}, plain=True, wait=False) as editor:
        editor.wait(editor.server_process, "the server")
        editor.keys("idef f")
        for _ in range(40):
            if editor.screen()[0] == "def f(x)":
                break
            editor.settled()  # the model may not have been loaded at the first key
            editor.keys("<BS>f")
        editor.keys("<Tab>")
        editor.wait_for_text("def f(x)")
