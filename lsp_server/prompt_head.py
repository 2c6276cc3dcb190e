"""What stands before the text itself in a prompt: the repository, snippets of other files, the file's path.

It is made of whole snippets and depends on nothing that a keystroke changes, so the engine's KV cache
keeps it while the user types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from lsp_server.prompt_budget import USUAL_BUDGET, Budget

_LINE_COMMENTS = {
    "#": ".py .pyi .pyx .ipynb .rb .sh .bash .zsh .fish .ps1 .pl .pm .r .jl .ex .exs .nim .nix .tf .toml "
    ".yaml .yml .cmake .mk .graphql",
    "//": ".c .h .cc .cpp .cxx .hh .hpp .hxx .inl .cu .cuh .m .mm .java .kt .kts .scala .groovy .gradle .cs "
    ".fs .js .jsx .mjs .cjs .ts .tsx .mts .cts .go .rs .php .swift .dart .zig .v .sv .proto .thrift "
    ".scss .less",
    "--": ".lua .sql .hs .elm .vhd",
    ";;": ".lisp .el .scm .clj .cljs",
    "%": ".erl .hrl",
}
_COMMENT = {suffix: mark for mark, suffixes in _LINE_COMMENTS.items() for suffix in suffixes.split()}


@dataclass(frozen=True)
class Snippet:
    """Some whole lines of another place. path: relative to the repository, with "/"; "" if it has none.

    text: ends in its last line's "\\n"; no other line ends.
    """

    path: str
    text: str


@dataclass(frozen=True)
class Surroundings:
    """Where a text stands. repository: its name. path: of the text, as a snippet's; "" if unknown.

    snippets: the most similar last, so that it stands nearest to the text. budget: how much is
    read of it all.
    """

    repository: str = ""
    path: str = ""
    snippets: tuple[Snippet, ...] = ()
    budget: Budget = USUAL_BUDGET


NOWHERE = Surroundings()


@dataclass(frozen=True)
class Head:
    """Tokens before the prompt's prefix marker, and tokens behind it, before the prefix itself."""

    before: list[int]
    behind: list[int]

    def __len__(self) -> int:
        return len(self.before) + len(self.behind)


class HeadFormat:
    """Writes heads for one model family.

    With tokens for repository and file, as Qwen2.5-Coder's model card has it (examples/
    Qwen2.5-Coder-repolevel-fim.py; CodeGemma likewise, without a repository)::

        <repository>name\\n<file>path\\ntext<file>path\\ntext<file>path\\n<prefix>...

    StarCoder2 (arXiv 2402.19173, section on the data's format) has no line end after the repository's name,
    and the text's own path behind the prefix marker: ``path_behind``. A family without such tokens gets
    snippets as comments at the top of the prefix, and no names.
    """

    def __init__(
        self,
        special: Mapping[str, int],
        encode: Callable[[str], list[int]],
        repository: str = "",
        file: str = "",
        path_behind: bool = False,
    ) -> None:
        """repository, file: names of special tokens; one that ``special`` lacks is done without."""
        self._encode = encode
        self._repository, self._file = special.get(repository), special.get(file)
        self._path_behind = path_behind
        self._last = (NOWHERE, 0, Head([], []))

    def write(self, around: Surroundings, budget: int) -> Head:
        """The head in at most ``budget`` tokens; of too many snippets, the least similar are left out."""
        if self._last[:2] != (around, budget):
            if self._file is None:
                head = self._comments(around, budget)
            else:
                head = self._names_and_snippets(around, budget, self._file)
            self._last = (around, budget, head)
        return self._last[2]

    def _names_and_snippets(self, around: Surroundings, budget: int, file: int) -> Head:
        if around == NOWHERE:
            return Head([], [])
        before = []
        if self._repository is not None and around.repository:
            name = around.repository if self._path_behind else around.repository + "\n"
            before = [self._repository, *self._encode(name)]
        path = self._encode(f"{around.path or 'untitled'}\n")
        room = budget - len(before) - 1 - len(path)
        if room < 0:
            return Head([], [])
        texts = [f"{snippet.path or 'untitled'}\n{snippet.text}" for snippet in around.snippets]
        for text in self._that_fit(texts, room):
            before += [file, *text]
        before.append(file)
        if self._repository is None:
            del before[0]  # CodeGemma's token stands between files, not before the first
        return Head(before, path) if self._path_behind else Head([*before, *path], [])

    def _comments(self, around: Surroundings, budget: int) -> Head:
        mark = _COMMENT.get(PurePosixPath(around.path).suffix.lower())
        if mark is None:
            return Head([], [])
        texts = [_commented(snippet, mark) for snippet in around.snippets]
        return Head([], [token for text in self._that_fit(texts, budget) for token in text])

    def _that_fit(self, texts: list[str], room: int) -> list[list[int]]:
        """The tokens of as many of the last texts as fit, each with one token to spare."""
        kept: list[list[int]] = []
        for text in reversed(texts):
            tokens = self._encode(text)
            room -= len(tokens) + 1
            if room < 0:
                break
            kept.insert(0, tokens)
        return kept


def _commented(snippet: Snippet, mark: str) -> str:
    lines = [snippet.path or "untitled", *snippet.text.split("\n")[:-1]]
    return "".join(f"{mark} {line}".rstrip() + "\n" for line in lines) + "\n"
