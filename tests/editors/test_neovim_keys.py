"""What Neovim's keys do where there is no suggestion, and when there is to be none."""

from __future__ import annotations

import pytest


def test_tab_is_tab_where_there_is_no_suggestion(start):
    editor = start()
    editor.keys("ia<Tab>b<Esc>")
    editor.wait_for_text("a\tb")


def test_tab_does_what_it_did_before_where_there_is_no_suggestion(start):
    editor = start({"def f": "(x)"}, before="vim.keymap.set('i', '<Tab>', '<C-r>=40+2<CR>')")
    editor.keys("ia<Tab>")
    editor.wait_for_text("a42")
    editor.keys("<CR>def f")
    editor.wait_for_screen("a42", "def f(x)")
    editor.keys("<Tab>")
    editor.wait_for_text("a42", "def f(x)")


@pytest.mark.parametrize("expression", ["function() return '<C-v>u00e9' end", "'\"<C-v>u00e9\"'"])
def test_tab_does_what_an_expression_said_before(start, expression):
    editor = start(before=f"vim.keymap.set('i', '<Tab>', {expression}, {{ expr = true }})")
    editor.keys("ia<Tab>b")
    editor.wait_for_text("aéb")


def test_tab_does_what_a_mapping_to_itself_and_others_did_before(start):
    before = "vim.keymap.set('i', '<Tab>', '<Tab>qq', { remap = true }); vim.keymap.set('i', 'qq', 'z')"
    editor = start(before=before)
    editor.keys("ia<Tab>b<Esc>")
    editor.wait_for_text("a\tzb")


def test_tab_does_what_a_mapping_of_a_scripts_own_did_before(start, tmp_path):
    script = tmp_path / "own.vim"
    script.write_text("inoremap <SID>x z\nimap <Tab> <SID>x\n", encoding="utf-8")
    editor = start(before=f"vim.cmd.source('{script.as_posix()}')")
    editor.keys("ia<Tab>b<Esc>")
    editor.wait_for_text("azb")


def test_a_second_setup_changes_who_draws_and_which_keys(start, way):
    editor = start({"def f": "(x)"}, before="vim.keymap.set('i', '<Tab>', 'T')")
    drawn_by_neovim = way[1]
    editor.lua(
        """
        local native = ...
        local cmd = require('draftline.config').current.cmd
        require('draftline').setup({ cmd = cmd, native = native, keys = { accept = '<C-l>' } })
        """,
        not drawn_by_neovim,
    )
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    drawn = editor.lua(
        """
        local space = vim.api.nvim_get_namespaces()['draftline.ghost']
        return #vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {})
        """
    )
    can = editor.lua("return vim.lsp.inline_completion ~= nil")
    assert drawn == (1 if drawn_by_neovim or not can else 0)
    editor.keys("<C-l>")
    editor.wait_for_text("def f(x)")
    editor.keys("<Tab>")
    editor.wait_for_text("def f(x)T")


def test_suggestions_switched_off_cost_no_request(start):
    editor = start({"def f": "(x)"})
    editor.keys(":Draftline toggle<CR>")
    assert editor.statusline() == "Draftline off"
    editor.keys("idef f")
    editor.settled()
    assert (editor.requests(), editor.generations(), editor.screen()[0]) == (0, [], "def f")
    editor.keys("<Esc>:Draftline toggle<CR>a")
    editor.wait_for_screen("def f(x)")
    assert editor.statusline() == "Draftline ready"


def test_switching_off_hides_what_is_shown(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<Cmd>Draftline toggle<CR>")
    editor.wait_for_screen("def f")


def test_a_language_switched_off_costs_no_request(start):
    editor = start({"def f": "(x)"}, options="filetypes = { python = false }", wait=False)
    assert editor.statusline() == "Draftline off"
    editor.keys("idef f")
    editor.settled()
    assert (editor.requests(), editor.screen()[0]) == (0, "def f")


def test_only_the_trigger_key_asks_where_that_is_wanted(start, own):
    editor = start({"def f": "(x)"}, options="auto = false")
    editor.keys("idef f")
    editor.settled()
    assert editor.requests() == 0
    editor.keys("<M-Bslash>")
    editor.wait_for_screen("def f(x)")


MENU = "vim.o.completeopt = 'menuone'"


def test_no_suggestion_under_an_open_menu(start):
    editor = start({"def f": "(x)", "define": "(y)"}, content=b"\ndefine\n", before=MENU)
    editor.keys("idef<C-n>")
    editor.wait(lambda: editor.lua("return vim.fn.pumvisible()") == 1, "the menu")
    editor.settled()
    assert editor.screen()[0] == "define"
    editor.keys("<C-y>")
    editor.wait_for_screen("define(y)")


def test_a_suggestion_under_an_open_menu_where_that_is_wanted(start):
    editor = start({"define": "(y)"}, content=b"\ndefine\n", before=MENU, options="with_popup = true")
    editor.keys("idef<C-n>")
    editor.wait_for_screen("define(y)")
    assert editor.lua("return vim.fn.pumvisible()") == 1


@pytest.mark.parametrize(
    "menu",
    [
        "package.loaded['cmp'] = { visible = function() return open end, event = { on = function() end } }",
        "package.loaded['blink.cmp'] = { is_visible = function() return open end }",
    ],
    ids=["nvim-cmp", "blink.cmp"],
)
def test_no_suggestion_under_the_menu_of_a_plugin(start, menu):
    editor = start({"def f": "(x)"}, before=f"open = true; {menu}")
    editor.keys("idef f")
    editor.settled()
    assert editor.screen()[0] == "def f"
    editor.keys("<Tab>")
    editor.wait_for_text("def f\t")
    editor.lua("open = false")
    editor.keys("<BS>")
    editor.wait_for_screen("def f(x)")
