"""From the settings to a loaded engine: which model, and which trigram table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.tokenizer import Tokenizer
from lsp_server.completions import Completer
from lsp_server.settings import Settings
from model_setup.store import general_trigram_path, resolve_model, trigram_path


def load_completer(settings: Settings, on_progress: Callable[[float], None] | None = None) -> Completer:
    """Load the model, which takes seconds.

    Raises:
        DraftlineError: the model is not installed, or something in it cannot be used.
    """
    oracle = resolve_model(settings.model)
    draft2 = _trigram(settings, oracle)
    from engine import load  # brings in torch, so what can fail early has failed by now

    return Completer(
        load(
            oracle,
            draft2=draft2,
            device=settings.device,
            weights=settings.weights,
            on_progress=on_progress,
        )
    )


def _trigram(settings: Settings, oracle: Path) -> Path | None:
    """The table that was asked for, else the repository's, else the one of code in general, else none."""
    if settings.draft2:
        return Path(settings.draft2)
    tokenizer = oracle / "tokenizer.json"
    if not tokenizer.exists():
        return None  # a GGUF file: model-setup builds tables for installed models only
    fingerprint = Tokenizer(tokenizer).fingerprint
    paths = [general_trigram_path(fingerprint)]
    if settings.repository is not None:
        paths.insert(0, trigram_path(Path(settings.repository), fingerprint))
    return next((path for path in paths if path.exists()), None)
