"""The repository's trigram table, on top of a general table of code.

The general table is counted once from the Python standard library and the packages of the environment
that Draftline runs in, so that a small repository does not start from nothing. The repository's counts
are added to it WEIGHT times. How often the next token was among the four likeliest, in per cent of 6000
places in the tenth of a package's files that is held out (the last column is the package's table alone):

    package   tokens counted  general alone   1 time    4    8   16   32   64    alone
    flask             63,534           41.6     51.2 53.6 54.5 55.0 55.5 55.8     52.0
    docker            83,154           35.0     56.1 60.9 62.6 63.4 64.0 64.3     62.6
    jedi             151,824           36.1     49.5 51.8 52.4 52.8 53.0 53.2     50.2
    werkzeug         158,331           49.2     54.9 57.0 57.6 57.6 57.6 57.5     54.3
    IPython          485,250           34.0     40.6 41.7 42.1 42.2 42.1 42.1     39.7
    libcst           639,673           32.8     50.6 52.7 53.0 53.3 53.5 53.4     51.6
    moto           2,139,516           34.8     56.1 57.6 57.9 58.0 57.9 57.9     57.0

32 is at most 0.3 behind the best weight, whatever the size of the package, so a rule would earn nothing. As
WEIGHT is above Katz's K, the small counts that Good-Turing looks at are those of the general table.

What that is worth, with the lookup in the prompt beside it (40 places in the held-out files of each package
but moto, the next 48 tokens of the file in the oracle's stead, trees of step times measured with
Qwen2.5-Coder-0.5B in int8): 2.39 tokens a cycle with the general table and 2.69 with the package's, 1.13
times as many; 1.36 times in docker, 1.15 in werkzeug and jedi, 1.10 in libcst, 1.06 in flask, 1.00 in
IPython. With what that model itself wrote there, at 12 places alone, it was 2.91 and 3.11. Taking more from
the seen successors for the unseen ones (a total larger by 0.5, 1 or 2 times WEIGHT) lost 1 to 4 % in
werkzeug, docker and libcst, and less than 2 % either way in flask and IPython.

A lookup of the longest match in all files of the package, beside that table and the lookup in the prompt,
gained nothing (40 such places in each of flask, docker, jedi, werkzeug and IPython): 1.09 times the general
table's tokens a cycle with the package's table alone, 1.09 with both, 1.09 with that lookup alone.

Nor did it help to learn chances apart by how often the context was seen (40 places in each of those, libcst,
moto and sqlparse, with what the author wrote in the gap in the oracle's stead): 1.108 times without it, 1.110
with it.

Text that a model writes is counted GENERATED_WEIGHT times. 20,486 tokens that Qwen2.5-Coder-0.5B wrote for
werkzeug, which took a processor core six minutes, gained nothing there: 510 cycles without them, and 510, 508
and 510 with them counted 1, 8 and 32 times. The paper counts six thousand times as many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DraftlineError
from engine.katz import read_counts, write_counts
from engine.ngram_count import Counts, count, merge
from engine.tokenizer import Tokenizer
from model_setup.corpus import CorpusReport
from model_setup.general_code import general_texts
from model_setup.generated_texts import GeneratedTexts
from model_setup.kept_tokens import Ids
from model_setup.repository_tokens import Progress, RepositoryTokens, batches, encode
from model_setup.store import kept_tokens_path

WEIGHT = 32
GENERATED_WEIGHT = 1


@dataclass(frozen=True)
class TrigramReport:
    """corpus: what of the repository was read. tokens, written_tokens, general_tokens: how many were counted
    of it, of what a model wrote, and of code in general. new_tokens: how many of ``tokens`` are in files that
    were not there, or not as they are, the last time."""

    path: Path
    corpus: CorpusReport
    tokens: int
    new_tokens: int
    written_tokens: int
    general_tokens: int
    bytes: int


def build_repository_trigram(
    repository: Path,
    tokenizer: Tokenizer,
    path: Path,
    general: Path,
    progress: Progress | None = None,
    written: Path | None = None,
) -> TrigramReport:
    """Write the table of ``repository`` to ``path``; ``general`` is built if it is not there yet.

    The tokens of the files are kept beside it (see `store.kept_tokens_path`), so that the next time only
    changed files are tokenised. written: a file of `GeneratedTexts`, which are counted as well.

    Raises:
        DraftlineError: no source files, or no room; a table that was at ``path`` before is untouched.
    """
    tokens = RepositoryTokens(repository, tokenizer, kept_tokens_path(path), progress)
    own = count(tokens, tokenizer.vocab_size)
    under = general_counts(tokenizer, general, progress)
    texts = () if written is None else GeneratedTexts(written, tokenizer.fingerprint)
    generated = count((text for _, text in texts), tokenizer.vocab_size)
    all_counts = merge([under, own.times(WEIGHT), generated.times(GENERATED_WEIGHT)])
    write_counts(path, all_counts, tokenizer.vocab_size, tokenizer.fingerprint)
    size = path.stat().st_size
    return TrigramReport(
        path, tokens.report, own.tokens, tokens.new_tokens, generated.tokens, under.tokens, size
    )


def general_counts(tokenizer: Tokenizer, path: Path, progress: Progress | None = None) -> Counts:
    """The counts of the general table at ``path``, which is written first if it is missing or unusable.

    It is a table like any other, and serves alone where there is no repository.

    Raises:
        DraftlineError: it cannot be written.
    """
    fingerprint = tokenizer.fingerprint
    try:
        return read_counts(path, fingerprint)
    except DraftlineError:
        counts = count(_tokenised(general_texts(), tokenizer, progress), tokenizer.vocab_size)
        write_counts(path, counts, tokenizer.vocab_size, fingerprint)
        return counts


def _tokenised(texts: Iterable[str], tokenizer: Tokenizer, progress: Progress | None) -> Iterator[Ids]:
    done = 0
    for batch in batches(texts):
        for ids in encode(batch, tokenizer):
            done += len(ids)
            yield ids
        if progress is not None:
            progress("general code", done)
