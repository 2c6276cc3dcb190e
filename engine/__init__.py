"""Draftline's decoder. It knows no editor and no place on disk.

``load`` is imported on first use, because it brings in torch (seconds); everything else here is light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.errors import DraftlineError
from engine.request import CancelToken, Cycle, SamplingParams

if TYPE_CHECKING:
    from engine.engine import Engine, load

__all__ = ["CancelToken", "Cycle", "DraftlineError", "Engine", "SamplingParams", "load"]


def __getattr__(name: str) -> Any:
    if name in {"Engine", "load"}:
        from engine import engine

        return getattr(engine, name)
    raise AttributeError(f"module 'engine' has no attribute {name!r}")
