"""From the settings to a loaded engine: which model, and which trigram table."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import DraftlineError
from lsp_server.completer import Completer
from lsp_server.machine import use_threads
from lsp_server.settings import Settings
from lsp_server.writer import EngineWriter
from model_setup.store import general_trigram_path, resolve_model, step_times_path, trigram_path

if TYPE_CHECKING:
    from engine.engine import Engine

logger = logging.getLogger(__name__)


def load_completer(settings: Settings, on_progress: Callable[[float], None] | None = None) -> Completer:
    """Load the model, which takes seconds.

    Raises:
        DraftlineError: the model is not installed, or it or the table asked for cannot be used.
    """
    if settings.backend == "openai":
        from lsp_server.server_writer import connect  # brings in the HTTP client

        return Completer(connect(settings.server_url, settings.server_model, settings.server_family))
    oracle = resolve_model(settings.model)
    from engine import load  # brings in torch, so what can fail early has failed by now

    use_threads(settings.threads)
    engine = load(
        oracle,
        draft=None if settings.draft is None else resolve_model(settings.draft),
        draft2=named_table(settings),
        device=settings.device,
        weights=settings.weights,
        on_progress=on_progress,
        step_times=step_times_path(),
    )
    if engine.notice:
        logger.warning("%s", engine.notice)
    if settings.draft2 is None:
        _use_trigram(engine, tables_for(settings, engine.tokenizer.fingerprint))
    return Completer(EngineWriter(engine))


def tables_for(settings: Settings, fingerprint: str) -> tuple[Path, ...]:
    """The tables to guess with, the best first: the one that was chosen, else the repository's and that of
    code in general. Not all need be there; without, we are only slower."""
    if (named := named_table(settings)) is not None:
        return (named,)
    general = general_trigram_path(fingerprint)
    if settings.repository is None:
        return (general,)
    return trigram_path(Path(settings.repository), fingerprint), general


def named_table(settings: Settings) -> Path | None:
    """The table that was chosen, if one was, as any process finds it, whatever folder it works in."""
    return None if settings.draft2 is None else Path(settings.draft2).absolute()


def _use_trigram(engine: Engine, tables: tuple[Path, ...]) -> None:
    for path in tables:
        if path.exists():
            try:
                return engine.use_table(path)
            except DraftlineError as error:
                logger.warning("%s", error)
