"""What a repository's draft is made from: its older self, a small model of the same family, or the oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from engine.checkpoint import check_directory
from engine.errors import DraftlineError
from engine.model_files import read_json
from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.carve import SMALLER, read_size
from model_setup.presets import PRESETS

Kind = Literal["carved", "sibling"]
LARGEST_SIBLING = SMALLER * 2 / 3  # times smaller than the oracle; one that is larger is too slow a draft
SMALLEST_SIBLING = SMALLER * 5 / 3
TRAINING = "training.json"  # in a draft's directory: how it was made


def identity(model: Path) -> str:
    """The same for the same weights: the SHA-256 of the model's files."""
    files = (store.read_manifest(model) or {}).get("files", {})
    paths = sorted(model.glob("*.safetensors"))
    return " ".join(
        str(files[path.name]["sha256"]) if path.name in files else store.sha256_of(path) for path in paths
    )


def read_training(draft: Path) -> dict[str, Any]:
    """How the draft in the directory ``draft`` was made; nothing if it does not say so."""
    try:
        return read_json(draft / TRAINING)
    except DraftlineError:
        return {}


def older_self(directory: Path, tokenizer: Tokenizer) -> Path | None:
    """``directory``, if a draft is in it that can be used with ``tokenizer``."""
    try:
        check_directory(directory)
    except DraftlineError:
        return None
    same = Tokenizer(directory / "tokenizer.json").fingerprint == tokenizer.fingerprint
    return directory if same else None


def find_sibling(oracle: Path, tokenizer: Tokenizer) -> Path | None:
    """An installed model with the oracle's tokenizer that is as much smaller as a draft should be."""
    size = read_size(oracle)
    for name in PRESETS:
        model = store.installed_model(name)
        if model is None or not LARGEST_SIBLING <= size.whole / read_size(model).whole <= SMALLEST_SIBLING:
            continue
        if Tokenizer(model / "tokenizer.json").fingerprint == tokenizer.fingerprint:
            return model
    return None
