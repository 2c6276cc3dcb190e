"""Which documents get no suggestions and are shown nowhere: not a character of them reaches the model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pathspec import GitIgnoreSpec
from pygls.uris import to_fs_path

from model_setup.unwanted_files import is_secret

NOTEBOOK_CELL = "vscode-notebook-cell"


class Exclusions:
    """Files of secrets, by their names alone, and those that the user's patterns name."""

    def __init__(self, root: Path | None = None, patterns: Sequence[str] = ()) -> None:
        """root: the absolute path that the patterns go by, as those of a ``.gitignore`` there would."""
        self._root = root
        self._patterns = GitIgnoreSpec.from_lines(patterns)

    def cover(self, uri: str) -> bool:
        """Whether the document is to be left alone. The file itself is not looked at."""
        if left_alone(uri):
            return True
        path = path_of(uri)
        return self.cover_path(path) if path else self._patterns.match_file(_path_in(uri).lstrip("/"))

    def cover_path(self, path: Path) -> bool:
        """Whether the patterns name the file, whose path may be relative to the root.

        One outside is matched by its whole path.
        """
        if self._root and path.is_relative_to(self._root):
            path = path.relative_to(self._root)
        return self._patterns.match_file(path.relative_to(path.anchor).as_posix())


NO_MORE = Exclusions()


def left_alone(uri: str) -> bool:
    """Whether the document is a file of secrets by its name."""
    return is_secret(PurePosixPath(_path_in(uri)))


def path_of(uri: str) -> Path | None:
    """Where the document's file, or the notebook that it is a cell of, lies; None for any other kind."""
    scheme, _, rest = uri.partition(":")
    try:
        path = to_fs_path(f"file:{rest}") if scheme.lower() in ("file", NOTEBOOK_CELL) else None
    except ValueError:
        path = None
    return Path(path) if path else None


def _path_in(uri: str) -> str:
    try:
        path = unquote(urlsplit(uri).path)
    except ValueError:  # no URI that Python knows; what stands behind its last slash is still a name
        path = uri
    return path.replace("\\", "/")
