"""The log file: what happened and how long it took, never the user's text."""

from __future__ import annotations

import logging
import logging.handlers
import os
from pathlib import Path

import platformdirs


def log_folder() -> Path:
    home = os.environ.get("DRAFTLINE_HOME")
    return Path(home) / "logs" if home else Path(platformdirs.user_log_dir("draftline", appauthor=False))


def log_file(name: str = "server.log") -> Path:
    return log_folder() / name


def log_to_file(name: str = "server.log") -> None:
    """Send this process's log to a rotated file, and nothing to stderr: an editor may never read that."""
    logging.raiseExceptions = False
    # Silences every other library; pygls in particular writes whole messages, and so source text, to its log.
    logging.getLogger().addHandler(logging.NullHandler())
    logging.captureWarnings(True)
    try:
        log_folder().mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            log_file(name), maxBytes=1_000_000, backupCount=3, encoding="utf-8"
        )
    except OSError:
        return  # a home that cannot be written to is no reason not to serve
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    for name in ("lsp_server", "engine", "model_setup", "py.warnings"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.INFO)
