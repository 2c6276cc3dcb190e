"""Which files the user wants left out beside those of the rules: the setting ``exclude``.

Its patterns are those of a .gitignore, from the user's settings, the repository's and the environment, each
adding to the others. What cannot be read is an error here, for it may name what must not be learned. (The
language server, which reads all settings, goes on with the others and says so.)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from engine.errors import DraftlineError
from model_setup import store

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def user_excludes(repository: Path) -> tuple[str, ...]:
    """The patterns that hold in ``repository``.

    Raises:
        DraftlineError: a file of settings cannot be read, or its ``exclude`` is no list of texts.
    """
    globs: list[str] = []
    for path in (store.settings_path(), repository / store.PROJECT_SETTINGS):
        try:
            globs += _globs(path.read_text(encoding="utf-8"), str(path))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeError) as error:
            raise DraftlineError(
                f"The settings in {path} cannot be read ({error}); mend that file."
            ) from error
    if value := os.environ.get("DRAFTLINE_EXCLUDE"):
        globs += _globs(f"exclude = {value}", "DRAFTLINE_EXCLUDE")
    return tuple(globs)


def _globs(text: str, where: str) -> list[str]:
    try:
        value: Any = tomllib.loads(text).get("exclude", [])
    except (ValueError, RecursionError) as error:
        raise DraftlineError(f"The settings in {where} cannot be read ({error}); mend them.") from error
    if not isinstance(value, list) or not all(isinstance(glob, str) and glob.strip() for glob in value):
        raise DraftlineError(
            f'exclude in {where} must be a list of patterns like "generated/**"; mend it there.'
        )
    return value
