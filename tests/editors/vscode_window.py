"""A window of VS Code driven by keys and screen: code-server's workbench in Chromium."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.editors.vscode import PATIENCE, VSCode, chromium, wait

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

_CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class Window:
    """A window on one folder. What it shows is read from the screen, what it saved from the disk."""

    def __init__(self, page: Page, vscode: VSCode, folder: Path) -> None:
        self.page, self.vscode, self.folder = page, vscode, folder
        page.goto(f"http://127.0.0.1:{vscode.port}/?folder={folder}")
        page.wait_for_selector(".monaco-workbench .explorer-folders-view", timeout=PATIENCE * 1000)

    def open(self, name: str) -> None:
        """Open a file of the folder and put the cursor at its end."""
        row = self.page.locator(f'.explorer-folders-view .monaco-list-row[aria-label*="{name}"]')
        row.dblclick(timeout=PATIENCE * 1000)
        self.page.wait_for_selector(f'.tab.active[data-resource-name="{name}"]', timeout=PATIENCE * 1000)
        self.focus()

    def focus(self) -> None:
        """Put the cursor at the end of the text."""
        self.page.locator(".editor-group-container.active .monaco-editor .view-lines").click()
        self.page.keyboard.press("Control+End")

    def type(self, text: str) -> None:
        self.page.wait_for_selector(".editor-instance .monaco-editor.focused")
        self.page.keyboard.type(text, delay=20)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def change_folder_settings(self, settings: dict[str, Any]) -> None:
        """Write the folder's settings in the editor, which then notices; code-server watches no files."""
        self.run("Preferences: Open Workspace Settings (JSON)", ours=False)
        self.page.wait_for_selector('.tab.active[data-resource-name="settings.json"]')
        self.focus()
        self.press("Control+a")
        self.page.keyboard.insert_text(json.dumps(settings))
        self.press("Control+Shift+End", "Delete")  # what the editor closes by itself
        self.press("Control+s")

    def run(self, title: str, *, ours: bool = True) -> None:
        """A command from the palette."""
        self.page.keyboard.press("F1")
        box = self.page.locator(".quick-input-widget input.input")
        box.wait_for(state="visible", timeout=PATIENCE * 1000)
        box.fill(f">Draftline: {title}" if ours else f">{title}")
        row = self.page.locator(".quick-input-widget .monaco-list-row", has_text=title).first
        row.click(timeout=PATIENCE * 1000)

    def ghost(self) -> str:
        """The ghost text on the screen, its lines joined; empty if there is none."""
        inline = self.page.locator(".ghost-text-decoration, .ghost-text-decoration-preview").all_inner_texts()
        below = self.page.locator(
            ".ghost-text .view-line, .suggest-preview-text .view-line"
        ).all_inner_texts()
        lines = ["".join(inline), *below]
        return "\n".join(lines).replace("\xa0", " ").rstrip("\n")

    def wait_for_ghost(self, text: str) -> None:
        wait(f"the ghost text {text!r}, not {self.ghost()!r}", lambda: text in self.ghost())

    def wait_for_no_ghost(self) -> None:
        wait("the ghost to leave", lambda: not self.ghost())

    @property
    def status(self) -> Locator:
        return self.page.locator('.statusbar-item[id*="draftline"]')

    def wait_for_status(self, text: str, patience: float = PATIENCE) -> None:
        """Text of the status bar item's label, which says what its tooltip says."""
        wait(f"the status {text!r}", lambda: any(text in label for label in self._labels()), patience)

    def _labels(self) -> list[str]:
        return [item.get_attribute("aria-label") or "" for item in self.status.all()]

    def saved(self, name: str) -> str:
        """Save the file that is being edited, and read it."""
        self.page.keyboard.press("Control+S")
        tab = f'.tab.active[data-resource-name="{name}"].dirty'
        wait("the file to be saved", lambda: not self.page.locator(tab).count())
        return (self.folder / name).read_bytes().decode("utf-8")

    def picture(self, name: str) -> None:
        """Keep a screenshot, to be looked at."""
        folder = Path(os.environ.get("DRAFTLINE_SCREENS") or self.vscode.home / "pictures")
        folder.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=folder / f"vscode-{name}.png")


@contextmanager
def browser() -> Iterator[Callable[[], Page]]:
    """Gives a function that opens pages."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        it = playwright.chromium.launch(executable_path=chromium(), args=_CHROMIUM)
        try:
            yield lambda: _new_page(it)
        finally:
            it.close()


def _new_page(it: Browser) -> Page:
    page = it.new_page(viewport={"width": 1100, "height": 700})
    page.set_default_timeout(PATIENCE * 1000)
    return page
