"""Tensors on disk, whole or not at all, and one sentence where there is no room for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import DraftlineError


@contextmanager
def room_for(path: Path) -> Iterator[None]:
    """Raises DraftlineError where what is written to ``path`` finds no room, or may not be written."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise DraftlineError(
            f"{path} cannot be written ({error}); free some space, or set DRAFTLINE_HOME to a folder with "
            "room."
        ) from error


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], description: Mapping[str, str] | None = None
) -> None:
    """Write ``tensors`` and what ``description`` says of them to ``path``, a safetensors file.

    Raises:
        DraftlineError: there is no room, or no permission; what was at ``path`` before is untouched.
    """
    fresh = path.with_name(f".{path.name}.new")
    with room_for(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            save_file(dict(tensors), fresh, dict(description or {}))
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
