"""Emacs as a user of Eglot has it, with none of our code: suggestions come through its completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SESSION = Path(__file__).with_name("emacs_session.el")
PAGE = (ROOT / "editors" / "README.md").read_text(encoding="utf-8")


def missing():
    """Which of Emacs and its packages are not installed."""
    if (emacs := shutil.which("emacs")) is None:
        return ["Emacs"]
    asked = (
        '(dolist (name (list "eglot" "company")) (unless (locate-library name) (princ (concat name "\n"))))'
    )
    done = subprocess.run(
        [emacs, "-q", "--batch", "--eval", asked], capture_output=True, text=True, timeout=60
    )
    return done.stdout.split()


@pytest.fixture
def complete(tmp_path):
    """Types a text into a file in Emacs and completes there; gives what was shown and the file after that."""

    def complete(way, typed, answers, before=b""):
        script = {"answers": answers, "delay": 0.0, "load": "ok", "log": str(tmp_path / "generations")}
        command = [sys.executable, "-m", "tests.lsp_server.scripted_server", json.dumps(script)]
        file = tmp_path / "t.py"
        file.write_bytes(before)
        done = subprocess.run(
            ["emacs", "-q", "--batch", "-l", str(SESSION), str(file), json.dumps(command), typed, way],
            env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=240,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, file.read_bytes().decode("utf-8")

    return complete


MISSING = missing()
WHY = "not installed: " + ", ".join(MISSING)
needs_eglot = pytest.mark.skipif(bool({"Emacs", "eglot"} & set(MISSING)), reason=WHY)
needs_company = pytest.mark.skipif(bool(MISSING), reason=WHY)


@needs_eglot
@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_completion_at_point_takes_a_suggestion_of_several_lines(complete, line_end):
    _, text = complete(
        "capf", "    def f", {"def f": "(x):\n        return x\n"}, f"class 名:{line_end}".encode()
    )
    assert text == line_end.join(["class 名:", "    def f(x):", "        return x", ""])


@needs_eglot
def test_behind_what_is_no_word_as_well(complete):
    _, text = complete("capf", "'😀' + ", {"'😀' + ": "'漢字'"})
    assert text == "'😀' + '漢字'\n"


@needs_company
def test_company_shows_its_first_line_and_takes_all_of_it(complete):
    shown, text = complete("company", "def f", {"def f": "(x):\n    return x"})
    assert (shown, text) == ("f(x):", "def f(x):\n    return x\n")


@needs_eglot
def test_the_settings_on_our_page_start_the_server(tmp_path):
    settings = re.search(r"^```elisp\n(.*?eglot.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    asked = '(progn (require \'eglot) (find-file "t.py") (prin1 (nth 3 (eglot--guess-contact))))'
    done = subprocess.run(
        ["emacs", "-q", "--batch", "--eval", f"(progn {settings[1]})", "--eval", asked],
        cwd=tmp_path,
        env={
            **os.environ,
            "HOME": str(tmp_path),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert '"draftline" "--stdio"' in done.stdout, done.stderr
