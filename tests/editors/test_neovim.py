"""Neovim as a user has it: keys go in, the screen and the file come out."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.editors.neovim_session import PLUGIN, binaries, neovim


def ways():
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


def test_a_suggestion_appears_while_typing_and_tab_takes_it(start):
    editor = start({"def f": "(x):\n    return x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x):", "    return x", "~")
    assert editor.text() == ["def f"]
    editor.keys("<Tab>")
    editor.wait_for_text("def f(x):", "    return x")
    assert editor.cursor() == (2, 12)
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"def f(x):\n    return x\n"


def test_what_is_typed_right_after_tab_stands_behind_the_suggestion(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<Tab>:")
    editor.wait_for_text("def f(x):")


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


def test_dismissing_leaves_the_text_alone(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<C-]>")
    editor.wait_for_screen("def f")
    editor.keys("<Tab><Esc>")
    editor.wait_for_text("def f\t")


def test_leaving_insert_mode_hides_the_suggestion(start):
    editor = start({"def f": "(x)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("<Esc>")
    editor.wait_for_screen("def f")


def test_what_is_typed_of_a_suggestion_is_taken_off_it(start):
    editor = start({"def f": "(x, y)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x, y)")
    editor.settled()
    before = editor.generations()  # what would follow it is computed ahead
    for typed in "(x,":
        editor.keys(typed)
        assert editor.screen()[0] == "def f(x, y)"
    editor.settled()
    assert editor.generations() == before
    editor.keys(" <Tab>")  # at once: no character twice
    editor.wait_for_text("def f(x, y)")


def test_typing_along_asks_the_server_nothing(start, own):
    editor = start({"def f": "(x, y):\n\treturn x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.settled()
    asked = editor.requests()
    editor.keys("(x, y):<CR>")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.keys("<BS><BS><BS>:")
    editor.wait_for_screen("def f(x, y):", "        return x")
    editor.settled()
    assert editor.requests() == asked


def test_typing_something_else_drops_the_suggestion(start):
    editor = start({"def f": "(x)", "def fg": "(y)"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.keys("g")
    editor.wait_for_screen("def fg(y)")
    editor.keys("<Tab>")
    editor.wait_for_text("def fg(y)")


def test_what_does_not_fit_any_more_leaves_the_screen_at_once(start):
    editor = start({"def f": "(x)", "def fq": "uite another that takes seconds"}, delay=0.2)
    editor.keys("idef f")
    editor.wait_for_screen("def f(x)")
    editor.settled()
    before = editor.generations()
    editor.keys("q")
    editor.wait_for_screen("def fq")
    assert editor.generations() == before  # what fits instead is not known yet


def test_accepting_word_by_word(start):
    editor = start({"for ": "item in items:", "item": " in items:", "in": " items:"})
    editor.keys("ifor ")
    editor.wait_for_screen("for item in items:")
    for text in ("for item", "for item in"):
        editor.keys("<M-Right>")
        editor.wait_for_text(text)
        editor.wait_for_screen("for item in items:")
    editor.keys("<Tab>")
    editor.wait_for_text("for item in items:")


def test_accepting_line_by_line(start):
    rest = "\n    a = 1\n    b = 2"
    editor = start({"def f": "():" + rest, "():": rest, "a = 1": "\n    b = 2"})
    editor.keys("idef f")
    editor.wait_for_screen("def f():", "    a = 1", "    b = 2")
    editor.keys("<M-Down>")
    editor.wait_for_text("def f():")
    editor.wait_for_screen("def f():", "    a = 1", "    b = 2")
    editor.keys("<M-Down>")
    editor.wait_for_text("def f():", "    a = 1")
    assert editor.cursor() == (2, 9)


def test_one_undo_takes_a_suggestion_back(start):
    editor = start({"def f": "(x):\n    return x"})
    editor.keys("idef f")
    editor.wait_for_screen("def f(x):")
    editor.keys("<Tab>")
    editor.wait_for_text("def f(x):", "    return x")
    editor.keys("  # ok<Esc>u")
    editor.wait_for_text("def f(x):", "    return x")
    editor.keys("u")
    editor.wait_for_text("def f")
    editor.keys("u")
    editor.wait_for_text("")


@pytest.mark.parametrize(
    ("left", "suggested"),
    [
        ('s = "😀" + ', "x"),
        ('s = "привет" + ', 'str("漢字")'),
        ("名前 = 関数", "(引数)"),
        ("e\u0301 = ", "'e\u0301'"),
        ("\ta\tb = ", "c\td"),
    ],
    ids=["emoji", "Cyrillic", "CJK", "combining", "tabs"],
)
def test_wide_characters_and_tabs_before_the_cursor(start, left, suggested):
    editor = start({left[-4:]: suggested}, content=f"{left}\n".encode())
    editor.keys("A")
    editor.wait(lambda: editor.screen()[0] == shown(left + suggested), "the suggestion where it belongs")
    editor.keys("<Tab>")
    editor.wait_for_text(left + suggested)
    assert editor.cursor() == (1, len((left + suggested).encode()))


def shown(line):
    return line.expandtabs(8)


def test_a_suggestion_among_tabs(start, own):
    editor = start({"def f():": "\n\tif x:\n\t\treturn\t1"}, content=b"\tdef f():\n\tz\n")
    editor.keys("A")
    editor.wait_for_screen("        def f():", "        if x:", "                return  1", "        z")


def test_text_right_of_the_cursor_stays_where_it_is(start, own):
    editor = start({"f(": "a, b"}, content="x = f() # 漢\n".encode())
    editor.keys("f)i")
    editor.wait_for_screen("x = f(a, b) # 漢")
    editor.keys("<Tab>")
    editor.wait_for_text("x = f(a, b) # 漢")


PAIRS = "vim.keymap.set('i', '(', '()<Left>')"


def test_a_bracket_closed_by_the_editor_is_not_doubled(start, way):
    editor = start({"print": "(x)", "print(": "x)"}, before=PAIRS)
    editor.keys("iprint")
    editor.wait_for_screen("print(x)")
    editor.keys("(")
    editor.wait_for_screen("print(x" if way[1] else "print(x)")  # Neovim itself draws over the bracket
    editor.keys("<Tab>")
    editor.wait_for_text("print(x)")
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"print(x)\n"


def test_nor_by_one_who_takes_the_suggestion_at_once(start):
    editor = start({"print": "(x)"}, before=PAIRS)
    editor.keys("iprint")
    editor.wait_for_screen("print(x)")
    editor.keys("(<Tab><Esc>:w<CR>")
    editor.wait(lambda: editor.file.read_bytes() == b"print(\t)\n", "a tab, for want of a suggestion")


def test_long_lines_wrap_like_text(start, own):
    long = "ab 漢 " * 4
    editor = start({"x = ": f"'{long}'\n'{long}'"}, size=(20, 10))
    editor.keys("ix = ")
    editor.wait(lambda: "'" in editor.screen()[2], "the suggestion")
    ghost = [row.ljust(20) for row in editor.screen()]
    editor.keys("<Tab>")
    editor.wait(lambda: len(editor.text()) == 2, "the text")
    assert [row.ljust(20) for row in editor.screen()[:4]] == ghost[:4]


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


def test_a_file_with_dos_line_ends(start):
    editor = start({"def f": "(x):\n    return x"}, content=b"# a\r\n\r\n")
    editor.keys("jidef f")
    editor.wait_for_screen("# a", "def f(x):", "    return x", "~")
    editor.keys("<Tab>")
    editor.wait_for_text("# a", "def f(x):", "    return x")
    editor.keys("<Esc>:w<CR>")
    assert editor.file.read_bytes() == b"# a\r\ndef f(x):\r\n    return x\r\n"


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


MENU = "vim.o.completeopt = 'menuone'"


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


def test_going_through_several_suggestions(start, own):
    editor = start()
    editor.lua(
        """
        require('draftline.client').request = function(_, method, _, _, answered)
          if method == 'textDocument/inlineCompletion' then
            answered({ items = { { insertText = 'one' }, { insertText = 'two' } } })
          end
        end
        """
    )
    editor.keys("ix = ")
    editor.wait_for_screen("x = one")
    for row in ("x = two (2/2)", "x = one (1/2)", "x = two (2/2)"):
        editor.keys("<M-]>")
        editor.wait_for_screen(row)
    editor.keys("<M-[>")
    editor.wait_for_screen("x = one (1/2)")
    editor.keys("<Tab>")
    editor.wait_for_text("x = one")


def test_two_files_have_suggestions_of_their_own(start, tmp_path):
    (tmp_path / "u.py").write_text("\n", encoding="utf-8")
    editor = start({"def f": "(x)", "def g": "(y)"})
    editor.keys(f":e {tmp_path / 'u.py'}<CR>idef g")
    editor.wait_for_screen("def g(y)")
    editor.keys("<Tab><Esc>:w<CR><C-^>idef f")
    editor.wait_for_screen("def f(x)")


def test_the_states_on_the_statusline(start):
    editor = start({"def f": "(x)"}, delay=0.3)
    assert editor.statusline() == "Draftline ready"
    editor.keys("idef f")
    editor.wait_for_state("working")
    editor.wait_for_state("ready")


def test_what_was_typed_while_the_model_was_loaded_has_its_suggestion_then(start):
    editor = start({"def f": "(x)"}, load="slow", wait=False)
    editor.wait(lambda: editor.statusline().startswith("Draftline loading"), "the start")
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


def test_loading_on_the_statusline(start):
    editor = start(load="never", wait=False)
    editor.wait_for_state("loading 25")


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
