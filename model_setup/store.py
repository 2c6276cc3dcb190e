"""Where Draftline keeps what it fetched and built, and whether a model there is whole.

home()/models/<name>/              a converted model and its manifest
home()/trigrams/<repository>/      what was counted in one repository
home()/drafts/<repository>/        the draft model that was trained for one repository
home()/reports/<repository>/       what setting it up has gained there
home()/records/<repository>.json   which steps of setting it up are done
home()/partial/<name>/             a download that is under way or broke off
home()/settings.toml               the user's settings, if DRAFTLINE_HOME says where this is
home()/rates.json                  how fast steps of setting up were here, for the next estimate
home()/step_times.json             how long this machine's forward passes take; measured again when missing
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from platformdirs import user_config_path, user_data_dir

from engine.errors import DraftlineError
from model_setup.presets import PRESETS, default_preset

MANIFEST = "draftline.json"
PROJECT_SETTINGS = ".draftline.toml"  # in the repository
CONVERTER_VERSION = 1  # of engine.gguf_file; raise it when a model converted before must be converted anew


def home() -> Path:
    """$DRAFTLINE_HOME, or where the system keeps a user's application data."""
    return Path(os.environ.get("DRAFTLINE_HOME") or user_data_dir("draftline", appauthor=False)).absolute()


def model_directory(name: str) -> Path:
    return home() / "models" / name


def partial_directory(name: str) -> Path:
    return home() / "partial" / name


def repository_root(path: Path) -> Path:
    """The repository that the folder ``path`` is in: the nearest parent with ``.git``, else ``path``."""
    folder = path.resolve()
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), folder)


def repository_key(repository: Path) -> str:
    """The name of ``repository`` in the folders here, the same for any folder inside it.

    It begins with the repository's own name, for people; its hash keeps repositories of one name apart.
    """
    root = repository_root(repository)
    key = hashlib.sha256(os.path.normcase(root).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return f"{root.name}-{key}"


def draft_directory(repository: Path, oracle: str) -> Path:
    """The model directory of the draft trained in ``repository`` for the oracle of that name."""
    return home() / "drafts" / repository_key(repository) / oracle


def report_directory(repository: Path) -> Path:
    return home() / "reports" / repository_key(repository)


def trigram_path(repository: Path, tokenizer_fingerprint: str) -> Path:
    """The file for the table counted in ``repository`` with the vocabulary of that fingerprint."""
    return home() / "trigrams" / repository_key(repository) / f"{tokenizer_fingerprint[:16]}.trigram"


def kept_tokens_path(table: Path) -> Path:
    """The file for the tokens that the repository's ``table`` was counted from."""
    return table.with_suffix(".tokens")


def generated_path(repository: Path, tokenizer_fingerprint: str, author: Path) -> Path:
    """The file for what the model ``author`` writes for the table of ``repository``: another one when that
    model is trained further."""
    return trigram_path(repository, tokenizer_fingerprint).with_suffix(f".{_weights_key(author)}.generated")


def _weights_key(model: Path) -> str:
    """What tells models apart, from both ends of their weights: training changes them all."""
    digest = hashlib.sha256()
    for path in sorted(model.iterdir()) if model.is_dir() else [model]:
        if path.suffix in (".safetensors", ".gguf"):
            size = path.stat().st_size
            with path.open("rb") as file:
                digest.update(size.to_bytes(8, "little") + file.read(1 << 16))
                file.seek(max(0, size - (1 << 16)))
                digest.update(file.read())
    return digest.hexdigest()[:16]


def clean_texts_path(repository: Path) -> Path:
    """The file that names the texts of ``repository`` without secrets."""
    return home() / "trigrams" / repository_key(repository) / "clean_texts"


def general_trigram_path(tokenizer_fingerprint: str) -> Path:
    """The file for the table of code in general, which every repository's table is built on."""
    return home() / "trigrams" / "general" / f"{tokenizer_fingerprint[:16]}.trigram"


def record_path(repository: Path) -> Path:
    """What `model_setup.record` keeps of ``repository``."""
    return home() / "records" / f"{repository_key(repository)}.json"


def rates_path() -> Path:
    return home() / "rates.json"


def step_times_path() -> Path:
    return home() / "step_times.json"


def settings_path() -> Path:
    """In ``$DRAFTLINE_HOME``, or where the system keeps a user's settings."""
    given = os.environ.get("DRAFTLINE_HOME")
    return (Path(given) if given else user_config_path("draftline", appauthor=False)) / "settings.toml"


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as JSON, as `write_text` does."""
    write_text(path, json.dumps(value, indent=2))


def write_text(path: Path, text: str) -> None:
    """Write ``text`` beside ``path``, then rename it, so that no half of it is ever read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="utf-8", errors="replace") as file:  # a name may hold half a character
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def write_manifest(directory: Path, *, source: str, source_sha256: str) -> None:
    """Hash the files in ``directory`` and record them: with this file the model counts as installed.

    source: where it came from, for people. source_sha256: of the GGUF file, or "" for a directory.
    """
    files = sorted(path for path in directory.iterdir() if path.name != MANIFEST)
    manifest = {
        "converter": CONVERTER_VERSION,
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "source": source,
        "source_sha256": source_sha256,
        "files": {path.name: _entry(path) for path in files},
    }
    write_json(directory / MANIFEST, manifest)


def _entry(path: Path) -> dict[str, Any]:
    status = path.stat()
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256_of(path)}


def read_manifest(directory: Path) -> dict[str, Any] | None:
    """The manifest, or None if there is none of this converter."""
    try:
        manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(manifest, dict) or manifest.get("converter") != CONVERTER_VERSION:
        return None
    return manifest


def installed_model(name: str) -> Path | None:
    """The directory of the model ``name``, if it is whole.

    Files as large and as old as they were when they were hashed are taken for unchanged; others are hashed
    again, which takes a second for a gigabyte.
    """
    return _agreeing(model_directory(name), _is_unchanged)


def trained_draft(repository: Path, oracle: str) -> Path | None:
    """The directory of the draft trained in ``repository`` for the oracle of that name, if it is whole."""
    return _agreeing(draft_directory(repository, oracle), _is_unchanged)


def verified_model(name: str) -> Path | None:
    """Like ``installed_model``, but reads and hashes every file: seconds for a gigabyte."""
    if installed_model(name) is None:
        return None
    return _agreeing(model_directory(name), lambda path, entry: sha256_of(path) == entry["sha256"])


def _is_unchanged(path: Path, entry: dict[str, Any]) -> bool:
    status = path.stat()
    if status.st_size != entry["size"]:
        return False
    return status.st_mtime_ns == entry.get("mtime_ns") or sha256_of(path) == entry["sha256"]


def _agreeing(directory: Path, agrees: Callable[[Path, dict[str, Any]], bool]) -> Path | None:
    manifest = read_manifest(directory)
    if manifest is None:
        return None
    try:
        whole = all(agrees(directory / name, entry) for name, entry in manifest["files"].items())
    except (OSError, KeyError, TypeError, AttributeError):
        return None
    return directory if whole else None


def resolve_model(name_or_path: str | None = None) -> Path:
    """The directory or GGUF file of a model: by preset name, by path, or (None) the default preset's.

    Raises:
        DraftlineError: it is not installed, or there is no such path.
    """
    name = default_preset().name if name_or_path is None else name_or_path
    if name in PRESETS:
        installed = installed_model(name)
        if installed is None:
            option = "" if name == default_preset().name else f" --preset {name}"
            state = "damaged or unfinished" if model_directory(name).exists() else "not installed"
            raise DraftlineError(f"The model {name} is {state}; run `model-setup fetch{option}`.")
        return installed
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # "~" and the name of nobody here
        path = Path(name)
    if not path.exists():
        raise DraftlineError(
            f"There is no model {name}; give a directory, a GGUF file or one of {', '.join(PRESETS)}."
        )
    return path.absolute()


@contextmanager
def only_one(name: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock for writing what is called ``name``, a model or a repository's key.

    If another process has it, call ``on_wait`` and wait.
    """
    folder = home() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        on_wait()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def remove_leftovers(name: str) -> None:
    """Delete what a conversion that was killed left beside the model; call it with the lock held."""
    for folder in model_directory(name).parent.glob(f".{name}-*"):
        shutil.rmtree(folder, ignore_errors=True)
