"""A repository's model and table alone, as the demo and `model-setup trigram` want them; all the steps are in
`model_setup.steps`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import DraftlineError
from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.presets import Preset, default_preset
from model_setup.progress import console, say


def set_up_repository(repository: Path, preset: Preset | None = None) -> tuple[Path, Path]:
    """Fetch the model unless it is installed, build the repository's table, and return (model, table).

    Raises:
        DraftlineError: there is no such folder, the model cannot be had, or there is nothing to learn from.
    """
    if not repository.is_dir():
        raise DraftlineError(f"There is no folder {repository}; name the repository to set up.")
    preset = preset or default_preset()
    model = store.installed_model(preset.name)
    if model is None:
        from model_setup.fetch import fetch_model

        model = fetch_model(preset)
    return model, build_trigram(repository, model)


def build_trigram(
    repository: Path,
    model: Path,
    generate: int = 0,
    draft: Path | None = None,
    seconds: float = math.inf,
) -> Path:
    """Count the repository that the folder ``repository`` is in, with the tokenizer of ``model``.

    generate: how many tokens that ``draft`` (or, without one, ``model``) wrote are wanted; what is missing is
    written now, for ``seconds`` at most. What it wrote before is counted in any case.

    Raises:
        DraftlineError: a model cannot be used, there is nothing to learn from, or no room for the table.
    """
    from model_setup.trigram import build_repository_trigram  # brings in numpy

    root = store.repository_root(repository)
    tokenizer = Tokenizer(model / "tokenizer.json")
    path = store.trigram_path(root, tokenizer.fingerprint)
    general = store.general_trigram_path(tokenizer.fingerprint)
    with console.status("Counting") as status:

        def progress(what: str, done: int) -> None:
            status.update(f"Counting {what}: {done:,} tokens")

        author = draft or model
        if generate:
            generate_text(root, tokenizer, author, generate, seconds, lambda done: progress("text", done))
        report = build_repository_trigram(
            root,
            tokenizer,
            path,
            general,
            progress,
            store.generated_path(root, tokenizer.fingerprint, author),
        )
    say(f"Learned from {root}: {report.corpus}.")
    written = f", {report.written_tokens:,} that {author.name} wrote" if report.written_tokens else ""
    say(
        f"The table has {report.tokens:,} tokens of the repository{written} and {report.general_tokens:,} of "
        f"code in general, {report.bytes / 1e6:.0f} MB: {path}"
    )
    return path


def generate_text(
    root: Path,
    tokenizer: Tokenizer,
    author: Path,
    tokens: int,
    seconds: float = math.inf,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Let the model ``author`` write for the table of the repository ``root``, until there are ``tokens``
    tokens of its own or the time is up; returns how many there are. A later call goes on where this one ends.

    on_progress: called with how many there are.

    Raises:
        DraftlineError: the model cannot be used, there is nothing to learn from, or no room for the text.
    """
    from model_setup.repository_tokens import RepositoryTokens
    from model_setup.writing import generate_texts, starts_of  # brings in torch

    began = time.monotonic()
    kept = store.kept_tokens_path(store.trigram_path(root, tokenizer.fingerprint))
    starts = starts_of(RepositoryTokens(root, tokenizer, kept))
    left = seconds - (time.monotonic() - began)
    written = store.generated_path(root, tokenizer.fingerprint, author)
    return generate_texts(author, tokenizer.fingerprint, starts, written, tokens, left, on_progress)
