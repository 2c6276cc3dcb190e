"""VS Code with our extension in it, as code-server brings its workbench; `vscode_window` drives it.

``DRAFTLINE_VSCODE`` names the folder that ``vscode_install.sh`` filled.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "editors" / "vscode"
PATIENCE = 60.0  # seconds after which a test gives up; a busy machine may need many

_QUIET = {
    "editor.inlineSuggest.enabled": True,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.suggestOnTriggerCharacters": False,
    "editor.wordBasedSuggestions": "off",
    "editor.autoClosingBrackets": "never",
    "editor.minimap.enabled": False,
    "files.autoSave": "off",
    "workbench.startupEditor": "none",
    "workbench.editor.useModal": "off",
    "workbench.tips.enabled": False,
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "chat.disableAIFeatures": True,
    "git.enabled": False,
    "update.mode": "none",
    "telemetry.telemetryLevel": "off",
    "security.workspace.trust.enabled": False,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
}
_OF_MACHINE = {"draftline.path", "draftline.model"}
KEYS = {
    "ctrl+alt+w": "acceptWord",
    "ctrl+alt+l": "acceptLine",
    "ctrl+alt+t": "trigger",
    "ctrl+alt+g": "toggle",
}


def why_not() -> str | None:
    """What is missing for these tests; None if nothing is."""
    if not (home := os.environ.get("DRAFTLINE_VSCODE")) or not _entry(Path(home)).exists():
        return "VS Code is not installed: run tests/editors/vscode_install.sh and set DRAFTLINE_VSCODE"
    if chromium() is None:
        return "Chromium is not installed"
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    if not (EXTENSION / "node_modules" / "esbuild").exists():
        return "the extension's packages are not installed: run npm ci --ignore-scripts in editors/vscode"
    return None


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _entry(home: Path) -> Path:
    return home / "node_modules" / "code-server" / "out" / "node" / "entry.js"


def wait(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """What ``condition`` gives as soon as it is true."""
    end = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.05)
    return value


class VSCode:
    """An installation of its own in ``home``, with our extension as it is built from the sources now."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._generations = home / "generations"
        self._starts = home / "starts"
        self.setup_log = home / "model-setup-ran"
        self.report = home / "report.html"  # what `model-setup report` names, if it is there
        self.program = home / "programs" / "draftline"
        self._extensions = home / "extensions"
        self._user = home / "user"
        for folder in ("User", "Machine"):
            (self._user / folder).mkdir(parents=True)
        self.port = _free_port()
        self._path = home / "path"
        self._path.mkdir()
        (self._path / "python3").symlink_to(sys.executable)
        self._install_extension()
        self._write_model_setup()
        keys = [{"key": key, "command": f"draftline.{name}"} for key, name in KEYS.items()]
        (self._user / "User" / "keybindings.json").write_text(json.dumps(keys), encoding="utf-8")
        self.serve({})
        self.set({})

    def _install_extension(self) -> None:
        subprocess.run(["node", "scripts/bundle.mjs"], cwd=EXTENSION, check=True)
        target = self._extensions / "draftline.draftline-0.1.0"
        (target / "dist").mkdir(parents=True)
        shutil.copyfile(EXTENSION / "dist" / "extension.js", target / "dist" / "extension.js")
        _write_wheel(target / "dist" / "draftline-0.1.0-py3-none-any.whl", self.program)
        for name in ("package.json", "icon.png", "README.md"):
            shutil.copyfile(EXTENSION / name, target / name)

    def _write_model_setup(self) -> None:
        """One that notes its arguments, and knows of a report."""
        self.program.parent.mkdir()
        report = shlex.quote(str(self.report))
        lines = [
            f'echo "$@" > {shlex.quote(str(self.setup_log))}',
            f'if [ "$1" != report ]; then echo done; elif [ -e {report} ]; then echo {report}',
            "else echo 'Nothing was measured yet.' >&2; exit 2; fi",
        ]
        _write_script(self.program.with_name("model-setup"), lines)

    @property
    def private_environment(self) -> Path:
        return self._user / "User" / "globalStorage" / "draftline.draftline" / "environment"

    def serve(self, answers: dict[str, str], **options: Any) -> None:
        """What the servers started from now on say, see ``scripted_server``."""
        script = {"answers": answers, "delay": 0.0, "load": "ok", "log": str(self._generations), **options}
        self.serve_by("tests.lsp_server.scripted_server", json.dumps(script), home=self.home / "data")

    def serve_by(self, module: str, *arguments: str, home: Path) -> None:
        """Start this module with this ``DRAFTLINE_HOME`` as the server from now on; forget earlier ones."""
        command = shlex.join([sys.executable, "-m", module, *arguments])
        lines = [
            f"export PYTHONPATH={shlex.quote(str(ROOT))} DRAFTLINE_HOME={shlex.quote(str(home))}",
            f"echo $$ >> {shlex.quote(str(self._starts))}",
            f'exec {command} "$@"',
        ]
        _write_script(self.program, lines)
        for log in (self._generations, self._starts, self.setup_log):
            log.unlink(missing_ok=True)

    def set(self, settings: dict[str, Any]) -> None:
        """Write the settings, for windows that are opened from now on.

        As in any window on another machine, those of scope "machine" are not among the user's own.
        """
        machine = {"draftline.path": str(self.program)}
        machine |= {name: value for name, value in settings.items() if name in _OF_MACHINE}
        user = _QUIET | {name: value for name, value in settings.items() if name not in _OF_MACHINE}
        for folder, each in (("Machine", machine), ("User", user)):
            (self._user / folder / "settings.json").write_text(json.dumps(each, indent=2), encoding="utf-8")

    def user_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = json.loads((self._user / "User" / "settings.json").read_text("utf-8"))
        return settings

    def generations(self) -> int:
        """How often the model was asked to write something."""
        return len(_lines(self._generations))

    def servers(self) -> list[int]:
        """The process of each server that was started."""
        return [int(line) for line in _lines(self._starts)]

    @contextmanager
    def running(self) -> Iterator[VSCode]:
        installed = Path(os.environ["DRAFTLINE_VSCODE"])
        config = self.home / "config.yaml"
        config.write_text(f"auth: none\nbind-addr: 127.0.0.1:{self.port}\ncert: false\n", encoding="utf-8")
        options = {"config": config, "user-data-dir": self._user, "extensions-dir": self._extensions}
        command = [str(installed / "bin" / "node"), str(_entry(installed))]
        command += [word for name, path in options.items() for word in (f"--{name}", str(path))]
        command += ["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"]
        command += ["--ignore-last-opened"]
        environment = {**os.environ, "EXTENSIONS_GALLERY": '{"serviceUrl":""}'}
        # no draftline of this machine's own, and a pip that installs our small wheel alone
        environment |= {"HOME": str(self.home), "PATH": f"{self._path}:/usr/bin:/bin"}
        environment |= {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
        with (self.home / "code-server.log").open("wb") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                wait("code-server", self._healthy)
                yield self
            finally:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _write_script(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(["#!/bin/sh", *lines]) + "\n", encoding="utf-8")
    path.chmod(0o755)


def _write_wheel(path: Path, program: Path) -> None:
    """A package with a command `draftline` that runs ``program``."""
    info = "draftline-0.1.0.dist-info"
    run = (
        f"import os, sys\n\ndef main():\n    os.execv({str(program)!r}, [{str(program)!r}, *sys.argv[1:]])\n"
    )
    files = {
        "draftline_stub.py": run,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: draftline\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\ndraftline = draftline_stub:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines() if path.exists() else []


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
