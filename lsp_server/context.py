"""What the model is shown beside the text itself: snippets of other open documents, of places edited
lately, and of the files that the text imports.

Another choice of snippets makes the model read the whole prompt again, for they stand at its beginning.
So the choice stands while the user types: it is thought over only when the cursor is in another place or
document, when more is known than before, or when a snippet is out of date; and even then it stays unless
another is clearly better (see ``snippets.choose``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lsp_server.documents import Cursor, Document, without_line_end
from lsp_server.exclusions import NO_MORE, NOTEBOOK_CELL, Exclusions, path_of
from lsp_server.imports import Import, imports_of
from lsp_server.prompt import window_top
from lsp_server.prompt_budget import CHARACTERS_PER_TOKEN, USUAL_BUDGET, Budget
from lsp_server.prompt_head import NOWHERE, Snippet, Surroundings
from lsp_server.repository_files import RepositoryFiles, in_background
from lsp_server.snippets import MAX_LINES, Block, Candidate, Choice, block_at, blocks_of, choose, nearby
from model_setup.secret_lines import secret_lines

_ANOTHER_PLACE = 32  # lines from where the choice was made
_MOST_EDITS = 4  # places remembered in each document
_MOST_OPEN = 8  # documents looked at, those used last
_MOST_CLOSED = 8
_MOST_CANDIDATES = 2000
_SECRET_REACH = 320  # lines round a block in which a secret may begin or end: a long PEM key has as many
_LARGE = 6000  # lines; of a larger document only the places edited lately are looked at


@dataclass
class _Chosen:
    choice: Choice
    surroundings: Surroundings
    line: int
    generation: int


@dataclass
class _Open:
    """An open document. path: the file's, or the notebook's; None for an untitled one. edits: lines."""

    uri: str
    scheme: str
    path: Path | None
    document: Document
    edits: list[int] = field(default_factory=list)
    imports: tuple[Import, ...] = ()
    blocks: list[tuple[int, Block]] = field(default_factory=list)
    outdated: bool = True
    chosen: _Chosen | None = None

    def bring_up_to_date(self) -> None:
        lines = self.document.lines
        if not self.outdated:
            return
        if len(lines) > _LARGE:
            places = (block_at(lines, line) for line in self.edits if line < len(lines))
            self.blocks = sorted({place[0]: place for place in places if place}.values(), key=lambda p: p[0])
        else:
            self.blocks = blocks_of(lines, {block.lines: block for _, block in self.blocks})
        self.outdated = False

    def was_edited_in(self, first: int, block: Block) -> bool:
        return any(first <= line < first + len(block.lines) for line in self.edits)


class ContextSource:
    """Follows the open documents, and chooses snippets for one of them.

    Its methods are for one thread. None waits for a file: those are read in the background.
    """

    def __init__(
        self,
        root: Path | None,
        background: Callable[[Callable[[], None]], None] = in_background,
        *,
        exclusions: Exclusions = NO_MORE,
        cross_file: bool = True,
        budget: Budget = USUAL_BUDGET,
    ) -> None:
        """root: the repository's folder, an absolute path; without one there are no snippets of files.

        background: see ``RepositoryFiles``. cross_file: whether any other file is read or shown at all.
        budget: the prompt's.
        """
        self._files = RepositoryFiles(root, background, exclusions)
        self._exclusions = exclusions
        self._cross_file = cross_file
        self._budget = budget
        self._open: dict[str, _Open] = {}  # the one used last is the last
        self._closed: dict[Path, None] = {}  # likewise

    def opened(self, uri: str, document: Document) -> None:
        """Follow ``document``, whose lines will change with it."""
        opened = _Open(uri, _scheme(uri), path_of(uri), document)
        self._open[uri] = opened
        opened.bring_up_to_date()
        if self._cross_file and opened.path is not None and not self._exclusions.cover(uri):
            self._closed.pop(opened.path, None)
            self._files.ask(opened.path)
            self._look_at_imports(opened)

    def edited(self, uri: str, first: int, last: int, new_last: int) -> None:
        """The document's lines ``first`` to ``last`` have become the lines ``first`` to ``new_last``."""
        if not (document := self._used(uri)):
            return
        document.outdated = True
        moved = [line + new_last - last if line > last else line for line in document.edits]
        others = [line for line in moved if abs(line - new_last) >= MAX_LINES]
        if new_last - first <= 2 * MAX_LINES:  # more than that is no place
            document.edits = [*others[1 - _MOST_EDITS :], new_last]
        if any("import" in line[:200] for line in document.document.lines[first : first + 1]):
            self._look_at_imports(document)

    def replaced(self, uri: str) -> None:
        """All of the document's text is another."""
        if document := self._used(uri):
            document.outdated = True
            document.edits = []

    def closed(self, uri: str) -> None:
        document = self._open.pop(uri, None)
        if document is None or document.path is None:
            return
        if document.scheme == "file" and self._files.may_be_used(document.path):
            self._closed[document.path] = None
            self._files.read([document.path])
            if len(self._closed) > _MOST_CLOSED:
                del self._closed[next(iter(self._closed))]
        if not self._of_path(document.path):
            self._files.forget(document.path)

    def around(self, uri: str, lines: Sequence[str], cursor: Cursor) -> Surroundings:
        """What to show beside ``lines``, the document's text as it is or will be.

        The same as last time, as a rule; else a choice made now, which takes milliseconds.
        """
        returned = next(reversed(self._open), None) != uri
        own = self._used(uri)
        if own is None or self._exclusions.cover(uri):
            return NOWHERE
        if own.chosen is None or returned or not self._holds(own.chosen, cursor):
            own.chosen = self._choose(own, lines, cursor)
        return own.chosen.surroundings

    def _used(self, uri: str) -> _Open | None:
        if document := self._open.pop(uri, None):
            self._open[uri] = document
        return document

    def _holds(self, chosen: _Chosen, cursor: Cursor) -> bool:
        return (
            abs(cursor.line - chosen.line) <= _ANOTHER_PLACE
            and chosen.generation == self._files.generation
            and all(map(self._is_current, chosen.choice.candidates))
        )

    def _is_current(self, candidate: Candidate) -> bool:
        source, first, lines = candidate.source, candidate.first_line, candidate.block.lines
        if isinstance(source, _Open):
            is_open = self._open.get(source.uri) is source
            return is_open and tuple(source.document.lines[first : first + len(lines)]) == lines
        return isinstance(source, Path) and self._files.is_as_read(source)

    def _choose(self, own: _Open, lines: Sequence[str], cursor: Cursor) -> _Chosen:
        self._look_at_imports(own)
        generation = self._files.generation
        characters = self._budget.head * CHARACTERS_PER_TOKEN
        current = own.chosen.choice.candidates if own.chosen else ()
        candidates = self._candidates(own, lines, cursor)
        choice = choose(nearby(lines, cursor), candidates, characters, current)
        snippets = tuple(s for candidate in choice.candidates if (s := _snippet(candidate)).text)
        outside = own.path is not None and self._files.relative(own.path) is None
        around = Surroundings("" if outside else self._files.name, self._shown(own), snippets, self._budget)
        return _Chosen(choice, around, cursor.line, generation)

    def _candidates(self, own: _Open, lines: Sequence[str], cursor: Cursor) -> list[Candidate]:
        found = list(self._edited_elsewhere(own, lines, cursor))
        if not self._cross_file:
            return found
        imported = self._files.imported(own.path) if own.path else []
        others = [other for other in reversed(self._open.values()) if self._may_show(other, own)]
        for other in others[:_MOST_OPEN]:
            other.bring_up_to_date()
            path, is_imported = self._shown(other), other.path in imported
            found += (
                Candidate(path, first, block, is_imported or other.was_edited_in(first, block), other)
                for first, block in other.blocks
            )
        open_paths = {document.path for document in self._open.values()}
        for file in dict.fromkeys([*imported, *reversed(self._closed)]):
            if file not in open_paths:
                path, is_imported = self._files.relative(file) or file.name, file in imported
                found += (
                    Candidate(path, first, block, is_imported, file)
                    for first, block in self._files.blocks(file)
                )
        return found[:_MOST_CANDIDATES]

    def _edited_elsewhere(self, own: _Open, lines: Sequence[str], cursor: Cursor) -> Iterator[Candidate]:
        """Places edited lately in the same document that the prompt does not show anyway."""
        top = window_top(lines, cursor, self._budget.prefix * CHARACTERS_PER_TOKEN).line
        bottom, room = cursor.line, self._budget.suffix * CHARACTERS_PER_TOKEN
        while bottom < len(lines) and room > 0:
            room -= len(lines[bottom])
            bottom += 1
        for line in own.edits:
            place = block_at(lines, line) if line < len(lines) else None
            if place and (place[0] >= bottom or place[0] + len(place[1].lines) <= top):
                yield Candidate(self._shown(own), *place, likelier=True, source=own)

    def _may_show(self, other: _Open, own: _Open) -> bool:
        if other is own or self._exclusions.cover(other.uri):
            return False
        if other.scheme == NOTEBOOK_CELL:
            return other.path == own.path
        if other.scheme == "untitled":
            return True
        return other.path is not None and self._files.may_be_used(other.path)

    def _shown(self, document: _Open) -> str:
        if document.path is None:
            return ""
        return self._files.relative(document.path) or document.path.name

    def _look_at_imports(self, document: _Open) -> None:
        if document.path is None or not self._cross_file:
            return
        suffix = ".py" if document.scheme == NOTEBOOK_CELL else document.path.suffix.lower()
        imports = imports_of(document.document.lines, suffix)
        if imports != document.imports:
            document.imports = imports
            # one cell of a notebook imports for all
            of_all = [one for other in self._of_path(document.path) for one in other.imports]
            self._files.look_at_imports(document.path, tuple(dict.fromkeys(of_all)))

    def _of_path(self, path: Path) -> list[_Open]:
        """The open documents of this path: one for a file, and the cells of a notebook."""
        return [document for document in self._open.values() if document.path == path]


def _snippet(candidate: Candidate) -> Snippet:
    first, lines = candidate.first_line, candidate.block.lines
    top, around = first, lines
    if isinstance(candidate.source, _Open):  # a file's secrets were dropped when it was read
        top = max(0, first - _SECRET_REACH)
        around = tuple(candidate.source.document.lines[top : first + len(lines) + _SECRET_REACH])
    secret = secret_lines("".join(map(_with_one_end, around)))
    shown = (line for number, line in enumerate(lines, first - top) if number not in secret)
    text = "".join(map(_with_one_end, shown))
    return Snippet(candidate.path, text)


def _with_one_end(line: str) -> str:
    return without_line_end(line) + "\n"


def _scheme(uri: str) -> str:
    return uri.partition(":")[0].lower()
