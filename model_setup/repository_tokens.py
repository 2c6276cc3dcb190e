"""The token ids of the files of a repository that are learned from; those of unchanged files are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from engine.tokenizer import Tokenizer
from model_setup.corpus import CorpusReport, held_out, read_sources
from model_setup.kept_tokens import Ids, KeptTokens, TokenKeeper, digest_of

CHARACTERS = 100_000_000  # what is beyond is left out
BATCH_CHARACTERS = 2_000_000

Progress = Callable[[str, int], None]
"""Called now and then with what is being read and how many of its tokens have been."""


class RepositoryTokens:
    """Iterating reads the repository, once: the ids of each file but for the tenth that is held out.

    report: what was read. new_tokens: how many of the tokens were not kept from before.

    Raises, when iterated:
        DraftlineError: nothing to learn from, or no room to keep the tokens; what was kept is untouched.
    """

    def __init__(
        self, repository: Path, tokenizer: Tokenizer, kept: Path, progress: Progress | None = None
    ) -> None:
        self.report = CorpusReport()
        self.new_tokens = 0
        self._repository = repository
        self._tokenizer = tokenizer
        self._kept = kept
        self._progress = progress

    def __iter__(self) -> Iterator[Ids]:
        done = 0
        fingerprint = self._tokenizer.fingerprint
        with TokenKeeper(self._kept, fingerprint) as keeper, KeptTokens(self._kept, fingerprint) as old:
            for batch in batches(self._texts()):
                digests = [digest_of(text) for text in batch]
                kept = [old.ids(digest) for digest in digests]
                new = [text for text, ids in zip(batch, kept, strict=True) if ids is None]
                made = iter(encode(new, self._tokenizer))
                for digest, ids in zip(digests, kept, strict=True):
                    if ids is None:
                        ids = next(made)
                        self.new_tokens += len(ids)
                    keeper.keep(digest, ids)
                    done += len(ids)
                    yield ids
                if self._progress is not None:
                    self._progress("repository", done)

    def _texts(self) -> Iterator[str]:
        left = CHARACTERS
        for source in read_sources(self._repository, self.report):
            if not held_out(source.path):
                yield source.text
                left -= len(source.text)
                if left <= 0:
                    return


def encode(texts: list[str], tokenizer: Tokenizer) -> list[Ids]:
    return [np.array(ids, dtype=np.uint32) for ids in tokenizer.encode_batch(texts)]


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Batches large enough for all cores to tokenise and small enough for memory."""
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
