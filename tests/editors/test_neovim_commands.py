"""What `:Draftline` and Neovim's own commands show of the plugin."""

from __future__ import annotations

import sys

import pytest

from tests.editors.neovim_session import PLUGIN


def test_setting_up_runs_the_program_beside_the_server_and_none_of_the_current_folder(start, tmp_path):
    for folder in ("programs", "project"):
        for name in ("draftline", "model-setup"):
            program = tmp_path / folder / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f"#!/bin/sh\necho {name} of the {folder}\n", encoding="utf-8")
            program.chmod(0o755)
    editor = start()
    editor.lua(
        """
        local programs, project = ...
        vim.env.PATH = programs .. ':' .. vim.env.PATH
        vim.cmd.cd(project)
        require('draftline.config').current.cmd = { 'draftline', '--stdio' }
        """,
        str(tmp_path / "programs"),
        str(tmp_path / "project"),
    )
    editor.keys(":Draftline setup<CR>")
    editor.wait(lambda: "model-setup of the" in "\n".join(editor.text()), "model-setup")
    assert "model-setup of the programs" in editor.text()


def test_who_proposed_which_token(start):
    editor = start({"x": " = 1"})
    editor.keys("ix")
    editor.wait_for_screen("x = 1")
    editor.keys("<Tab>")
    editor.wait_for_text("x = 1")
    editor.keys("<Cmd>Draftline origins<CR>")
    editor.wait(lambda: "oracle 4" in editor.screen()[1], "the legend")
    assert "draft 0" in editor.screen()[1]
    assert "draft2 0" in editor.screen()[1]
    assert editor.colours(0)[:5] == ["", *["DraftlineOracle"] * 4]
    editor.keys("<Cmd>Draftline origins<CR>")
    editor.wait(lambda: editor.screen()[1] == "~", "the legend's end")


def test_origins_of_the_accepted_part_alone(start):
    editor = start({"x": " = 1\nyy = 漢"})
    editor.keys("<Cmd>Draftline origins<CR>")
    editor.wait(lambda: "accept a suggestion first" in editor.messages(), "a notice")
    editor.keys("ix")
    editor.wait_for_screen("x = 1", "yy = 漢")
    editor.keys("<M-Right>")
    editor.wait_for_text("x =")
    editor.keys("<Esc><Cmd>Draftline origins<CR>")
    editor.wait(lambda: "oracle" in editor.screen()[1], "the legend")
    assert editor.colours(0)[:5] == ["", "DraftlineOracle", "DraftlineOracle"]


def test_checkhealth(start):
    editor = start()
    editor.keys(":checkhealth draftline<CR>")
    report = "\n".join(editor.text())
    assert "the server runs for 1 buffers: ready" in report
    assert "<Tab>: accept" in report
    assert "Error" not in editor.messages()


def test_the_help_can_be_found(start):
    editor = start()
    for tag in ("draftline", "draftline-options", "draftline-install", "draftline-menus", ":Draftline"):
        editor.lua("vim.cmd.helptags(...)", str(PLUGIN / "doc"))
        editor.keys(f":help {tag}<CR>")
        assert editor.lua("return vim.fn.expand('%:t')") == "draftline.txt"
    (PLUGIN / "doc" / "tags").unlink()


def test_every_option_and_key_is_in_the_help(start):
    editor = start()
    guide = (PLUGIN / "doc" / "draftline.txt").read_text(encoding="utf-8")
    options = editor.lua("return vim.tbl_keys(require('draftline.config').types)")
    keys = editor.lua("return vim.tbl_keys(require('draftline.config').defaults.keys)")
    assert [name for name in [*options, *keys] if f"`{name}`" not in guide] == []


def test_a_wrong_option_is_told_by_name(start):
    editor = start({"def f": "(x)"}, options="debounce = 'soon', colour = 3, keys = { acept = 'x' }")
    for told in ("debounce must be a number", "no option colour", "no option keys.acept"):
        assert told in editor.messages()
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")


def test_a_missing_server_is_told_once(start):
    editor = start(options="cmd = { 'no-such-draftline' }", wait=False)
    assert editor.messages().count("the command no-such-draftline was not found; install it") == 1
    editor.keys("idef f<Tab><Esc>")
    editor.wait_for_text("def f\t")


@pytest.mark.skipif(sys.platform != "linux", reason="the folder has another name there")
@pytest.mark.parametrize("draftline_home", [False, True])
def test_the_log_is_where_the_server_writes_it(start, tmp_path, draftline_home):
    editor = start()
    home = str(tmp_path / "home") if draftline_home else ""
    where = tmp_path / ("home/logs" if draftline_home else "xdg/draftline/log") / "server.log"
    editor.lua("vim.env.DRAFTLINE_HOME, vim.env.XDG_STATE_HOME = ...", home, str(tmp_path / "xdg"))
    editor.keys(":Draftline log<CR>")
    assert f"no log at {where} yet" in editor.messages()
    where.parent.mkdir(parents=True)
    where.write_text("loaded\n", encoding="utf-8")
    editor.keys(":Draftline log<CR>")
    editor.wait_for_text("loaded")


def test_an_unknown_command_is_told(start):
    editor = start()
    editor.keys(":Draftline nonsense<CR>")
    assert "say one of log, origins, restart, setup, status, toggle" in editor.messages()
