"""What of a repository a draft learns from, and what it is judged by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from engine.config import read_config
from engine.errors import DraftlineError
from engine.model_files import read_json
from engine.tokenizer import Tokenizer
from model_setup.corpus import CorpusReport, SourceText, held_out, read_sources
from model_setup.windows import LENGTH, Window, cut_windows

HELD_OUT = 20  # windows on which recall is measured


@dataclass(frozen=True)
class Material:
    """documents: the tokens of the files to learn from, and windows: the pieces they are cut into. held:
    pieces of the files held out, HELD_OUT at most."""

    documents: list[list[int]]
    windows: list[Window]
    held: list[Window]


def read_material(repository: Path, oracle: Path, tokenizer: Tokenizer) -> Material:
    """Cut the files of ``repository`` for drafts of ``oracle``; at least one file is held out.

    Raises:
        DraftlineError: it has too little source.
    """
    sources = list(read_sources(repository, CorpusReport()))
    kept_back = [source for source in sources if held_out(source.path)] or [min(sources, key=_hash)]
    learned = [source.text for source in sources if source not in kept_back]
    documents, judged = (
        tokenizer.encode_batch(texts) for texts in (learned, [source.text for source in kept_back])
    )
    length = min(LENGTH, read_config(read_json(oracle / "config.json"), oracle).max_positions)
    windows, held = (cut_windows(texts, tokenizer.special, length) for texts in (documents, judged))
    if not windows or not held:
        raise DraftlineError(
            f"{repository} has too little source code to train a draft on; make its trigram alone "
            "with `model-setup trigram`."
        )
    return Material(documents, windows, held[:HELD_OUT])


def _hash(source: SourceText) -> str:
    return hashlib.sha256(source.path.as_posix().encode("utf-8", "surrogateescape")).hexdigest()
