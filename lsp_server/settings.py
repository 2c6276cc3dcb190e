"""What the user can choose, from the command line and from the editor's ``initializationOptions``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from engine.errors import DraftlineError


@dataclass(frozen=True)
class Settings:
    """What to load, and for which repository.

    model: a directory, a file or a preset's name (None: this machine's preset). draft: likewise, a smaller
    model of the same family (None: no transformer guesses). weights, device: as ``engine.load``. draft2: a
    trigram table's file (None: the repository's own, if it was built). repository: a folder (None: the one
    that the editor has open).
    """

    model: str | None = None
    draft: str | None = None
    weights: str = "auto"
    device: str = "auto"
    draft2: str | None = None
    repository: str | None = None

    def updated(self, options: Mapping[str, Any]) -> Settings:
        """These settings with the editor's options over them; null means not set, unknown names are ignored.

        Raises:
            DraftlineError: an option is no text.
        """
        known = {field.name for field in fields(self)}
        given = {name: value for name, value in options.items() if name in known and value is not None}
        for name, value in given.items():
            if not isinstance(value, str):
                raise DraftlineError(
                    f"The option {name} must be a text, not {value!r}; mend it in the editor's settings."
                )
        return replace(self, **given)
