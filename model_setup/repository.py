"""Everything for one repository: the model, then the trigram table that guesses for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def build_trigram(repository: Path, model: Path, generate: int = 0, draft: Path | None = None) -> Path:
    """Count the repository that the folder ``repository`` is in, with the tokenizer of ``model``.

    generate: how many tokens that ``draft`` (or, without one, ``model``) writes are counted as well.

    Raises:
        DraftlineError: a model cannot be used, there is nothing to learn from, or no room for the table.
    """
    from model_setup.trigram import Ids, build_repository_trigram  # brings in numpy

    author = draft or model
    root = store.repository_root(repository)
    tokenizer = Tokenizer(model / "tokenizer.json")
    path = store.trigram_path(root, tokenizer.fingerprint)
    general = store.general_trigram_path(tokenizer.fingerprint)
    with console.status("Counting") as status:

        def progress(what: str, done: int) -> None:
            status.update(f"Counting {what}: {done:,} tokens")

        def write(documents: Sequence[Ids]) -> Iterator[Ids]:
            from model_setup.generated_text import generate_texts, starts_of  # brings in torch

            starts, fingerprint = starts_of(documents), tokenizer.fingerprint
            return generate_texts(author, fingerprint, starts, generate, lambda done: progress("text", done))

        report = build_repository_trigram(
            root, tokenizer, path, general, progress, write if generate else None
        )
    say(f"Learned from {root}: {report.corpus}.")
    written = f", {report.written_tokens:,} that {author.name} wrote" if generate else ""
    say(
        f"The table has {report.tokens:,} tokens of the repository{written} and {report.general_tokens:,} of "
        f"code in general, {report.bytes / 1e6:.0f} MB: {path}"
    )
    return path
