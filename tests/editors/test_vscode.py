"""The extension in a real VS Code: what a user sees, by keys and screen, with a scripted model behind it."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.editors.vscode import PATIENCE, VSCode, wait, why_not
from tests.editors.vscode_window import Window, browser
from tests.engine.host.hosts import loads

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]

PYTHON = {"def add(a, b):\n    ": "return a + b"}
SILENT = 1.5  # seconds: longer than the editor ever waits before it asks


@pytest.fixture(scope="module")
def vscode(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VSCode]:
    with VSCode(tmp_path_factory.mktemp("vscode")).running() as it:
        yield it


@pytest.fixture(scope="module")
def new_page() -> Iterator[Callable[[], Page]]:
    with browser() as it:
        yield it


@pytest.fixture
def window(vscode: VSCode, new_page: Callable[[], Page], tmp_path: Path, request: pytest.FixtureRequest):
    """Opens a window on a new folder with the files given (usually an empty a.py)."""
    vscode.set({})
    windows: list[Window] = []

    def new(files: dict[str, str] | None = None, status: str = "Ready") -> Window:
        folder = tmp_path / f"folder{len(windows)}"
        folder.mkdir()
        for name, text in (files or {"a.py": ""}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(text.encode("utf-8"))
        it = Window(new_page(), vscode, folder)
        windows.append(it)
        it.wait_for_status(status)
        if status == "Ready":
            it.open(next(iter(files or {"a.py": ""})))
        return it

    yield new
    for number, it in enumerate(windows):
        it.picture(f"{request.node.name.removeprefix('test_')}{number or ''}")
        it.page.close()


def with_suggestion(vscode: VSCode, window: Callable[[], Window], **script: int) -> Window:
    """A window in which a suggestion has appeared while typing."""
    vscode.serve(PYTHON, **script)
    it = window()
    it.type("def add(a, b):\n")
    it.wait_for_ghost("return a + b")
    return it


def test_ghost_text_appears_while_typing_and_tab_accepts_it(vscode, window):
    it = with_suggestion(vscode, window)
    it.picture("ghost")
    it.press("Tab")
    it.wait_for_no_ghost()
    assert it.saved("a.py") == "def add(a, b):\n    return a + b"


def test_escape_dismisses_it(vscode, window):
    it = with_suggestion(vscode, window)
    it.press("Escape")
    it.wait_for_no_ghost()
    assert it.saved("a.py") == "def add(a, b):\n    "


def test_typing_what_it_says_keeps_it_without_asking_the_model_and_undo_takes_it_back(vscode, window):
    it = with_suggestion(vscode, window)
    before = settled(vscode)  # what would follow the suggestion is computed ahead
    it.type("retu")
    it.wait_for_ghost("rn a + b")
    assert settled(vscode) == before
    it.press("Tab")
    it.wait_for_no_ghost()
    it.press("Control+z")
    assert it.saved("a.py").endswith("retu")


def test_a_word_or_a_line_can_be_accepted_with_the_editors_keys_or_ours(vscode, window):
    vscode.serve({"x = ": "one(two,\n    three)"})
    it = window()
    it.type("x = ")
    it.wait_for_ghost("one(two,\n    three)")
    it.picture("lines")
    it.press("Control+ArrowRight")
    wait("the word", lambda: it.ghost().startswith("(two"))
    it.press("Control+Alt+w")
    wait("the next word", lambda: it.ghost().startswith("two") or it.ghost().startswith(","))
    it.press("Control+Alt+l")
    wait("the line", lambda: "two" not in it.ghost())
    assert it.saved("a.py").startswith("x = one(two,")


def test_it_can_be_asked_for(vscode, window):
    vscode.serve({"value = ": "42"})
    it = window({"a.py": "value = "})
    it.press("Control+Alt+t")
    it.wait_for_ghost("42")


def test_brackets_that_the_editor_closes_are_not_doubled(vscode, window):
    vscode.serve({"print(": "x)"})
    vscode.set({"editor.autoClosingBrackets": "always"})
    it = window()
    it.type("print(")
    it.wait_for_ghost("x")
    it.press("Tab")
    it.wait_for_no_ghost()
    assert it.saved("a.py") == "print(x)"


def test_it_goes_on_from_what_the_popup_has_selected(vscode, window):
    vscode.serve({"loads_all": "(text)"})
    vscode.set({"editor.wordBasedSuggestions": "currentDocument"})
    it = window({"a.py": "loads_all = 1\n"})
    it.type("lo")
    it.press("Control+Space")
    it.page.wait_for_selector(".suggest-widget.visible .monaco-list-row.focused")
    it.wait_for_ghost("(text)")
    it.picture("popup")
    it.press("Tab")
    wait("the popup to close", lambda: not it.page.locator(".suggest-widget.visible").count())
    if it.ghost():  # Tab took the popup's item alone
        it.press("Tab")
    it.wait_for_no_ghost()
    assert it.saved("a.py") == "loads_all = 1\nloads_all(text)"


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_lines_and_wide_characters_before_it_do_not_shift_it(vscode, window, line_end):
    vscode.serve({"s = ": "'🙂'\nt = '漢字'"})
    before = f"# 漢字 😀{line_end}"
    it = window({"a.py": before})
    it.type("'😀'; s = ")
    it.wait_for_ghost("t = '漢字'")
    it.press("Tab")
    it.wait_for_no_ghost()
    assert it.saved("a.py") == f"{before}'😀'; s = '🙂'{line_end}t = '漢字'"


def settled(vscode: VSCode) -> int:
    """How often the model was asked, once nothing is under way any more."""
    before = -1
    while before != (before := vscode.generations()):
        time.sleep(SILENT)
    return before


def assert_nothing_is_asked(it: Window) -> None:
    assert it.saved("a.py").strip()  # what was typed went into the file
    time.sleep(SILENT)
    assert (it.ghost(), it.vscode.generations()) == ("", 0)


def test_toggled_off_nothing_is_asked(vscode, window):
    vscode.serve(PYTHON)
    it = window()
    it.run("Toggle Suggestions")
    it.wait_for_status("Off.")
    it.type("def add(a, b):\n")
    assert_nothing_is_asked(it)
    it.picture("off")
    it.run("Toggle Suggestions")
    it.wait_for_status("Ready")
    it.press("Control+Alt+t")
    it.wait_for_ghost("return a + b")


def test_toggling_hides_what_is_shown(vscode, window):
    it = with_suggestion(vscode, window)
    it.press("Control+Alt+g")
    it.wait_for_no_ghost()


def test_a_language_can_be_switched_off(vscode, window):
    vscode.serve({"# x": "yz"})
    it = window({"a.py": "", "b.md": ""})
    it.run("Toggle Suggestions for This Language")
    it.wait_for_status("Off for the language python")
    it.type("# x")
    assert_nothing_is_asked(it)
    assert vscode.user_settings()["draftline.languages"] == {"*": True, "python": False}
    it.open("b.md")
    it.type("# x")
    it.wait_for_ghost("yz")


def test_the_menu_pauses_and_goes_on(vscode, window):
    vscode.serve(PYTHON)
    it = window()
    it.status.click()
    it.page.get_by_text("Pause for an hour").click()
    it.wait_for_status("Paused until")
    it.focus()
    it.type("def add(a, b):\n")
    assert_nothing_is_asked(it)
    it.status.click()
    it.picture("menu")
    it.page.get_by_text("Go on").click()
    it.wait_for_status("Ready")


def test_the_status_tells_how_far_loading_is(vscode, window):
    vscode.serve(PYTHON, load="never")
    it = window(status="loaded")
    wait("the percentage", lambda: "25%" in it.status.inner_text())


def test_a_model_that_cannot_be_loaded_is_told(vscode, window):
    vscode.serve(PYTHON, load="The model is not installed; run `model-setup fetch`.")
    it = window(status="The model is not installed")
    it.status.locator(".codicon-error").wait_for()


def test_the_status_shows_that_a_suggestion_is_being_made(vscode, window):
    vscode.serve(PYTHON, delay=0.1)
    vscode.set({"draftline.timeLimit": 60_000})  # a busy machine would show its beginning alone
    it = window()
    it.type("def add(a, b):\n")
    it.status.locator(".codicon-loading").wait_for()
    it.wait_for_ghost("return a + b")
    wait("rest", lambda: not it.status.locator(".codicon-loading").count())


def test_a_missing_program_is_told_and_installed_when_asked(vscode, window):
    vscode.serve(PYTHON)
    vscode.set({"draftline.path": ""})
    it = window(status="not installed")
    it.page.get_by_role("button", name="Install…").click()
    it.page.get_by_text("into an environment of its own?").wait_for()
    it.picture("install")
    assert not vscode.private_environment.exists()
    it.page.get_by_role("button", name="Install", exact=True).click()
    try:
        it.page.get_by_text("Draftline is installed.").first.wait_for(timeout=PATIENCE * 1000)
        it.wait_for_status("Ready")
        assert len(vscode.servers()) == 1
    finally:
        shutil.rmtree(vscode.private_environment, ignore_errors=True)


def test_a_killed_server_is_started_again(vscode, window):
    vscode.serve(PYTHON, load="slow")
    it = window()
    os.kill(vscode.servers()[0], signal.SIGKILL)
    wait("another server", lambda: len(vscode.servers()) == 2)
    it.wait_for_status("being loaded")
    it.wait_for_status("Ready")
    it.type("def add(a, b):\n")
    it.wait_for_ghost("return a + b")


def test_changed_settings_count_at_once(vscode, window):
    vscode.serve({"x = ": "nothing_else"})
    it = window()
    it.type("x = ")
    it.wait_for_ghost("nothing_else")
    it.change_folder_settings({"draftline.maxTokens": 7})  # of one character each
    it.open("a.py")
    it.type("\nx = ")
    wait("a shorter suggestion", lambda: it.press("Escape", "Control+Alt+t") or it.ghost() == "nothing")
    assert len(vscode.servers()) == 1


def test_an_accepted_suggestion_shows_who_proposed_each_token(vscode, window):
    it = with_suggestion(vscode, window, tokens_per_cycle=4)
    it.press("Tab")
    it.wait_for_no_ghost()
    it.run("Show or Hide Token Origins")
    coloured = wait("colours", lambda: _backgrounds(it))
    it.picture("origins")
    assert len(set(coloured)) == 2  # the oracle's and draft2's
    assert sorted(_legend(it)) == ["draft 0", "draft2 9", "oracle 3"]  # in the order that the editor likes
    it.type("\n")
    wait("them to leave", lambda: not _backgrounds(it) and not _legend(it))


def _legend(it: Window) -> list[str]:
    """What stands behind the text to say what the colours mean."""
    script = """() => [...document.querySelectorAll('.view-line span')]
        .map(e => getComputedStyle(e, '::after').content)
        .filter(text => text.startsWith('"'))
        .map(text => text.slice(1, -1))"""
    texts: list[str] = it.page.evaluate(script)
    return [text.replace("\xa0", " ").strip() for text in texts]


def _backgrounds(it: Window) -> list[str]:
    """The colours behind pieces of the text."""
    script = """() => [...document.querySelectorAll('.view-overlays .cdr')]
        .filter(e => e.getBoundingClientRect().width > 2)
        .map(e => [e.className, getComputedStyle(e).backgroundColor])
        .filter(([name, colour]) => name.includes('ced-') && colour !== 'rgba(0, 0, 0, 0)')
        .map(([, colour]) => colour)"""
    colours: list[str] = it.page.evaluate(script)
    return colours


def test_one_that_was_not_accepted_is_shown_on_a_page(vscode, window):
    it = with_suggestion(vscode, window, tokens_per_cycle=4)
    it.press("Escape")
    it.run("Show or Hide Token Origins")
    page = it.page.locator(".editor-group-container", has_text="Last suggestion")
    page.get_by_text("12 tokens in 3 cycles").wait_for()
    wait("the three colours", lambda: len(set(_backgrounds(it))) == 3)
    it.picture("page")


def test_model_setup_runs_in_a_terminal_and_what_it_made_is_used(vscode, window):
    vscode.serve(PYTHON)
    it = window()
    it.run("Set Up This Repository")
    wait("model-setup", vscode.setup_log.exists)
    assert vscode.setup_log.read_text("utf-8").split() == [str(it.folder)]
    wait("another server", lambda: len(vscode.servers()) == 2)


def test_what_model_setup_measured_is_shown(vscode, window):
    vscode.serve(PYTHON)
    it = window()
    it.run("Open the Report")
    it.page.get_by_text("Nothing was measured yet.").first.wait_for()
    vscode.report.write_text("<!DOCTYPE html><h1>Twice as fast</h1>", encoding="utf-8")
    it.run("Open the Report")
    panel = it.page.frame_locator("iframe.webview").frame_locator("iframe")
    panel.get_by_role("heading", name="Twice as fast").wait_for()
    assert vscode.setup_log.read_text("utf-8").split() == ["report", str(it.folder)]


def test_without_trust_nothing_of_the_folder_is_run(vscode, window, tmp_path):
    mark = tmp_path / "ran"
    evil = f'#!/bin/sh\ntouch "{mark}"\n'
    files = {
        "a.py": "",
        ".venv/bin/draftline": evil,
        "evil": evil,
        ".vscode/settings.json": f'{{"draftline.path": "{tmp_path}/folder0/evil"}}',
    }
    vscode.serve(PYTHON)
    vscode.set({"security.workspace.trust.enabled": True, "draftline.path": ""})
    it = window(files, status="not installed")
    for name in (".venv/bin/draftline", "evil"):
        (it.folder / name).chmod(0o755)
    it.run("Restart")
    time.sleep(SILENT)
    it.wait_for_status("not installed")
    assert not mark.exists()
    it.status.click()
    it.page.get_by_text("Show log").wait_for()
    assert it.page.get_by_text("Set up this repository").count() == 0


def test_with_trust_the_folders_own_environment_is_used_but_no_path_from_its_settings(
    vscode, window, tmp_path
):
    files = {"a.py": "", ".vscode/settings.json": '{"draftline.path": "/nowhere/draftline"}'}
    vscode.serve(PYTHON)
    vscode.set({"draftline.path": ""})
    it = window(files, status="not installed")
    (it.folder / ".venv" / "bin").mkdir(parents=True)
    (it.folder / ".venv" / "bin" / "draftline").symlink_to(vscode.program)
    it.run("Restart")
    it.wait_for_status("Ready")


def test_two_windows_share_the_process_with_the_model_and_outlive_it(vscode, desk, window):
    model = desk.model(answers=PYTHON | {"x = ": "1"}, load_seconds=3.0)
    vscode.serve_by("tests.lsp_server.hosted_server", home=desk.home)
    vscode.set({"draftline.model": str(model)})
    both = [window(), window()]
    for it in both:
        it.type("def add(a, b):\n")
    for it in both:
        it.wait_for_ghost("return a + b")
    assert len(loads(model)) == 1
    desk.kill()
    for it in both:
        it.press("Escape")
        it.type("x = ")  # while it is being loaded, and no key after that
    for it in both:
        it.wait_for_ghost("1")
    assert len(loads(model)) == 2
