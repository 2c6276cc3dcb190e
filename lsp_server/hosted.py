"""The model in the host's process instead of our own: from the settings to a `Completer` that asks there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import DraftlineError
from engine.host.place import Place
from engine.host.remote import Guesses, RemoteEngine, open_engine
from engine.host.wire import Open
from lsp_server.completer import Completer
from lsp_server.loading import load_completer, named_table, tables_for
from lsp_server.settings import Settings
from lsp_server.writer import EngineWriter
from model_setup.command_line import draftline_version
from model_setup.store import home, resolve_model, trained_draft

COMMAND = ("-m", "lsp_server.host_process")
_NEVER = 1e9  # seconds

logger = logging.getLogger(__name__)


def load_where_set(settings: Settings, on_progress: Callable[[float], None]) -> Completer:
    """In the host, in this process, or not at all if a server elsewhere answers.

    Raises:
        DraftlineError: it cannot be had, and why.
    """
    if settings.in_process or settings.backend == "openai":
        return load_completer(settings, on_progress)
    return load_hosted(settings, on_progress)


def load_hosted(
    settings: Settings, on_progress: Callable[[float], None], command: Sequence[str] = COMMAND
) -> Completer:
    """Have the host load the model; see `engine.host.start.reach` for ``command``.

    Raises:
        DraftlineError: the model is not installed or cannot be used, or there is no host.
    """
    oracle = resolve_model(settings.model)
    draft = None if settings.draft is None else resolve_model(settings.draft)
    idle = settings.idle_minutes * 60 or _NEVER
    asked = Open(str(oracle), settings.device, settings.weights, idle, settings.threads)
    engine = open_engine(Place.of(home(), draftline_version()), command, asked, on_progress)

    def guesses() -> Guesses:
        trained = None
        if draft is None and settings.repository is not None:
            trained = trained_draft(Path(settings.repository), engine.name)
        return Guesses(draft or trained, tables_for(settings, engine.fingerprint))

    engine.guesses = guesses
    try:
        _check_table(settings, engine)
    except DraftlineError:
        engine.close()
        raise
    if engine.notice:
        logger.warning("%s", engine.notice)
    return Completer(EngineWriter(engine))


def _check_table(settings: Settings, engine: RemoteEngine) -> None:
    """The host goes without a table that it cannot use; one that the user has named is to be told of."""
    if (table := named_table(settings)) is not None:
        from engine.ngram import NgramTable  # brings in numpy

        NgramTable(table, engine.fingerprint)


def remote_engine(completer: Completer | None) -> RemoteEngine | None:
    """The engine in the host that it asks, if it asks one."""
    writer = completer.writer if completer else None
    engine = writer.engine if isinstance(writer, EngineWriter) else None
    return engine if isinstance(engine, RemoteEngine) else None
