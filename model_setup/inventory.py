"""What is installed and was learned, how old and how large it is, and taking it away again."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from rich.prompt import Confirm

from engine.errors import DraftlineError
from model_setup import store
from model_setup.presets import PRESETS, default_preset
from model_setup.progress import console, say
from model_setup.record import Rates, Record
from model_setup.set_up import alone_in, look_at
from model_setup.steps import GUESSES, steps
from model_setup.subject import Setup
from model_setup.survey import Survey

LOCKS = "locks"


def show_status(folder: Path) -> None:
    """Print what is installed and learned, and whether that of the repository of ``folder`` is stale."""
    print(f"home: {store.home()}")
    for line in (*models(), *learned()):
        print(line)
    if store.record_path(folder).exists():
        print(f"{store.repository_root(folder)}:")
        for line in freshness(look_at(folder)):
            print(f"  {line}")


def take_away(folder: Path, *, ask: bool, may_ask: bool) -> None:
    """Delete what was learned in the repository that ``folder`` is in, or was in.

    Raises:
        DraftlineError: it is to be asked for, and nobody is there to be; or the system refuses.
    """
    root = store.repository_root(folder)
    with alone_in(root):
        paths = made_in(root)
        if not paths:
            say(f"Nothing was learned in {root}.")
            return
        for path in paths:
            say(f"  {path}, {size_of(path) / 1e6:.0f} MB")
        if ask and not may_ask:
            raise DraftlineError(
                "Nobody is there to be asked; say `model-setup remove --yes` to delete this."
            )
        if ask and not Confirm.ask(f"Delete what was learned in {root}?", console=console, default=False):
            say("Nothing was deleted.")
            return
        remove(paths)
        say(f"What was learned in {root} is deleted.")


def models() -> Iterator[str]:
    """A line for each model that can be fetched."""
    for name in PRESETS:
        yield f"{name}: {_state(name)}"


def _state(name: str) -> str:
    directory = store.model_directory(name)
    if (model := store.installed_model(name)) is not None:
        manifest = store.read_manifest(model) or {}
        size = sum(entry["size"] for entry in manifest["files"].values())
        return f"installed, {size / 1e6:.0f} MB, from {manifest['source']}, {model}"
    if directory.exists():
        return f"damaged or unfinished, {directory}; run `model-setup fetch --preset {name}`"
    partial = store.partial_directory(name) / "model.gguf"
    if partial.exists():
        done, total = partial.stat().st_size, PRESETS[name].gguf_size
        return f"fetched in part, {done / 1e6:.0f} of {total / 1e6:.0f} MB"
    return "not installed"


def learned() -> Iterator[str]:
    """A line for each file or folder that was learned or measured, by repository."""
    names = {"trigrams": "table", "drafts": "draft", "reports": "report"}
    for kind, what in names.items():
        pattern = "*/*.trigram" if kind == "trigrams" else "*/*"
        for path in sorted((store.home() / kind).glob(pattern)):
            if not path.name.startswith("."):
                yield f"{what}: {path.parent.name}, {size_of(path) / 1e6:.0f} MB, {_date(path)}, {path}"


def freshness(found: Survey) -> Iterator[str]:
    """A line for each step that was done in the repository: when, and whether what it made still fits."""
    record = Record(found.root)
    for step in steps(Setup(found, default_preset(), Rates(GUESSES), record)):
        done = record[step.name]
        if done is not None:
            changes = record.changes(step.name, step.input())
            state = f"stale: {', '.join(changes)}; run `model-setup`" if changes else "up to date"
            yield f"{step.name}: {_local(done.when)}, {done.said}; {state}"


def made_in(folder: Path) -> list[Path]:
    """All that Draftline keeps of the repository that ``folder`` is in, or was in."""
    key = glob.escape(store.repository_key(folder))
    found = [*store.home().glob(f"*/{key}"), *store.home().glob(f"*/{key}.*")]
    return sorted(path for path in found if path.parent.name != LOCKS)


def remove(paths: list[Path]) -> None:
    """Delete what `made_in` found.

    Raises:
        DraftlineError: the system refuses, as Windows does while an editor uses a table.
    """
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise DraftlineError(
                f"{path} cannot be deleted ({error.strerror or error}); close the editors that use it, and "
                "run the same command again."
            ) from error


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _date(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime).isoformat(sep=" ", timespec="minutes")


def _local(when: str) -> str:
    return datetime.fromisoformat(when).astimezone().strftime("%Y-%m-%d %H:%M")
