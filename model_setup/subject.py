"""What the steps of `model-setup` work on, and where the things are that they make."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.presets import Preset
from model_setup.record import Rates, Record
from model_setup.survey import Survey


@dataclass(frozen=True)
class Setup:
    """What the steps share: the repository as it is now, the model that it is set up for, and what is known
    of this machine. The tokenizer and what is named after it are there once the model was fetched.

    draft_at_any_price: train a draft even if decoding is not expected to gain enough by it.
    """

    survey: Survey
    preset: Preset
    rates: Rates
    record: Record
    humaneval: bool = False
    draft_at_any_price: bool = False
    budget: float | None = None

    @property
    def model(self) -> Path:
        return store.model_directory(self.preset.name)

    @property
    def fetched(self) -> bool:
        return (self.model / "tokenizer.json").is_file()

    @property
    def model_hash(self) -> str:
        manifest = store.read_manifest(self.model)
        return "" if manifest is None else str([entry["sha256"] for entry in manifest["files"].values()])

    @cached_property  # reading it takes most of a second
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.model / "tokenizer.json")

    @property
    def draft(self) -> Path | None:
        return store.trained_draft(self.survey.root, self.preset.name)

    @property
    def author(self) -> Path:
        """The model that writes text to be counted."""
        return self.draft or self.model

    @property
    def table(self) -> Path:
        return store.trigram_path(self.survey.root, self.tokenizer.fingerprint)

    @property
    def general(self) -> Path:
        return store.general_trigram_path(self.tokenizer.fingerprint)

    @property
    def written(self) -> Path:
        return store.generated_path(self.survey.root, self.tokenizer.fingerprint, self.author)


def hash_of(path: Path) -> str:
    """The SHA-256 of a file; "" if there is none."""
    return store.sha256_of(path) if path.exists() else ""
