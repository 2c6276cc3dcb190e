"""How much VS Code's user waits for the extension: ``python -m tests.benchmarks.vscode [--keys N]``.

A scripted model answers at once, so what is measured is the editor, the extension and the server. Needs what
tests/editors/test_vscode.py needs. Times are those of the page, from a key to the frame after which the ghost
text stands there.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.editors.vscode import EXTENSION, VSCode, wait, why_not
from tests.editors.vscode_window import Window, browser

PREFIX = "def add(a, b):\n"
TEXT = "return a + b  # the sum, whatever the two may be"  # shorter than a suggestion may be
QUIET = 0.4  # seconds between keys, so that each finds the editor at rest

WATCH = """wanted => {
    let pressed = null;
    window.draftlineSeen = null;
    window.addEventListener('keydown', () => { pressed = performance.now(); }, {capture: true, once: true});
    const look = () => {
        const shown = [...document.querySelectorAll('.ghost-text-decoration')].map(e => e.innerText).join('');
        if (pressed !== null && shown.replace(/\\u00a0/g, ' ') === wanted) {
            window.draftlineSeen = performance.now() - pressed;
        } else {
            requestAnimationFrame(look);
        }
    };
    requestAnimationFrame(look);
}"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=20, help="how often each is measured, at most 40")
    keys = min(parser.parse_args().keys, 40)
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 2
    for package in sorted(EXTENSION.glob("*.vsix")):
        print(f"{package.name}: {package.stat().st_size / 1000:.0f} kB")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        code = VSCode(Path(folder) / "code")
        code.serve({f"{PREFIX}    ": TEXT})
        files = Path(folder) / "folder"
        files.mkdir()
        (files / "a.py").touch()
        with code.running(), browser() as new_page:
            window = Window(new_page(), code, files)
            window.wait_for_status("Ready")
            window.open("a.py")
            measure(window, keys)
            show("activation", activation(window))
    return 0


def measure(window: Window, keys: int) -> None:
    """Type along, and then come back to places where the server knows what to suggest."""
    window.type(PREFIX)
    window.wait_for_ghost(TEXT)
    along = []
    for index in range(keys):
        along.append(pressed(window, TEXT[index], TEXT[index + 1 :]))
    show("typing along, a key to the ghost text", along)
    again = []
    for _ in range(keys):
        window.press("Escape")
        window.wait_for_no_ghost()
        again.append(pressed(window, "Backspace", TEXT[keys - 1 :]))
        pressed(window, TEXT[keys - 1], TEXT[keys:])
    show("dismissed and asked for again, a key to the ghost text", again)


def pressed(window: Window, key: str, wanted: str) -> float:
    """Milliseconds from this key to the ghost text that is ``wanted``."""
    time.sleep(QUIET)
    window.page.evaluate(WATCH, wanted)
    window.page.keyboard.press(key)
    window.page.wait_for_function("window.draftlineSeen !== null")
    return float(window.page.evaluate("window.draftlineSeen"))


def activation(window: Window) -> list[float]:
    """Milliseconds that the editor says it took to activate the extension."""
    window.run("Developer: Show Running Extensions", ours=False)
    row = window.page.locator(".runtime-extensions-editor .monaco-list-row", has_text="draftline")
    row.first.wait_for()
    found = wait("the time", lambda: re.search(r"Activation: (\d+) ?ms", row.first.inner_text()))
    return [float(found[1])]


def show(what: str, milliseconds: list[float]) -> None:
    print(f"{what}: median {statistics.median(milliseconds):.0f} ms, longest {max(milliseconds):.0f} ms")


if __name__ == "__main__":
    sys.exit(main())
