"""The language server: editor requests in, suggestions out. No tensors here."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("draftline")
except metadata.PackageNotFoundError:  # run from a checkout that was not installed
    __version__ = "0+unknown"
