"""Which documents get no suggestions: not a character of them reaches the model."""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

from model_setup.unwanted_files import is_secret


def left_alone(uri: str) -> bool:
    """Whether the document is a file of secrets by its name. The file itself is not looked at."""
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:  # no URI that Python knows; what stands behind its last slash is still a name
        path = uri
    return is_secret(PurePosixPath(path.replace("\\", "/")))
