"""A model directory or a GGUF file -> a Transformer and its tokenizer; refuses what it does not know.

A directory holds config.json, tokenizer.json and safetensors, as Hugging Face writes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.assembly import assemble
from engine.config import Config, read_config
from engine.errors import DraftlineError, OutOfMemory
from engine.model_files import Tensors, read_json
from engine.placement import Placement, Weights
from engine.tokenizer import Tokenizer
from engine.transformer import Transformer
from engine.trimmed_vocabulary import TrimmedVocabulary, read_trimmed_vocabulary


@dataclass(frozen=True)
class Checkpoint:
    """A model ready to run. eos_ids: the token ids after which the text is over. trimmed: whether it can say
    only some of the tokenizer's tokens."""

    transformer: Transformer
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    trimmed: bool


def load_checkpoint(
    path: Path,
    weights: Weights,
    on_progress: Callable[[float], None] | None = None,
    device: str = "cpu",
) -> Checkpoint:
    """Load ``path``, a model directory or a GGUF file (converted in a temporary folder first).

    on_progress: called with the fraction done, 0 to 1.

    Raises:
        OutOfMemory: it has no room there.
        DraftlineError: the path, its architecture or its tokenizer is not one we can run.
    """
    placement = Placement(device, weights)
    with _directory(path) as directory:
        with ThreadPoolExecutor(1) as pool:  # to try products takes as long as to read a tokenizer
            chosen = pool.submit(placement.linear)
            opened = _open(directory, device)
        if not placement.fits(opened.tensors.parameters):
            raise OutOfMemory(
                f"The model in {path} has no room in {placement.memory} with {weights} weights."
            )
        kind = chosen.result()
        transformer = assemble(
            opened.tensors, opened.config, opened.tokens, opened.trimmed, kind, on_progress
        )
        opened.tensors.forget()
        return Checkpoint(transformer, opened.tokenizer, opened.eos_ids, opened.trimmed is not None)


def check_directory(directory: Path) -> None:
    """Read all of a model directory but the tensors themselves.

    Raises:
        DraftlineError: a file is missing or cut short, or the model is not one that we can run.
    """
    _open(directory)


@dataclass(frozen=True)
class _Opened:
    """A model directory of which all has been read but the weights."""

    config: Config
    tokenizer: Tokenizer
    eos_ids: tuple[int, ...]
    tensors: Tensors
    trimmed: TrimmedVocabulary | None

    @property
    def tokens(self) -> int:
        """How many tokens the model can say."""
        return self.tokenizer.vocab_size if self.trimmed is None else self.config.vocab_size - 1


def _open(directory: Path, device: str = "cpu") -> _Opened:
    description = read_json(directory / "config.json")
    config = read_config(description, directory)
    tokenizer = Tokenizer(directory / "tokenizer.json")
    eos_ids = _eos_ids(directory, description, tokenizer)
    # Matrices may have more rows than there are tokens, but the model's own end of a text must be one.
    if eos_ids and not 0 <= eos_ids[0] <= eos_ids[-1] < tokenizer.vocab_size:
        raise DraftlineError(
            f"The model in {directory} ends a text with token {eos_ids[-1]}, but its tokenizer has only "
            f"{tokenizer.vocab_size} tokens: take both from the same model."
        )
    tensors = Tensors(directory, device)
    trimmed = read_trimmed_vocabulary(tensors, config.vocab_size - 1, tokenizer.vocab_size)
    if trimmed is None and tokenizer.vocab_size > config.vocab_size:
        raise DraftlineError(
            f"The tokenizer in {directory} has {tokenizer.vocab_size} tokens but the model only "
            f"{config.vocab_size}: take both from the same model."
        )
    return _Opened(config, tokenizer, eos_ids, tensors, trimmed)


def _eos_ids(directory: Path, description: dict[str, Any], tokenizer: Tokenizer) -> tuple[int, ...]:
    """What generation_config.json or config.json name as the end of a text; one id or several."""
    generation = directory / "generation_config.json"
    source, named = directory / "config.json", description.get("eos_token_id")
    if generation.exists():
        source, named = generation, read_json(generation).get("eos_token_id", named)
    ids = named if isinstance(named, list) else [] if named is None else [named]
    if not all(isinstance(token_id, int) for token_id in ids):
        raise DraftlineError(f"{source} names {named!r} as the end of a text; fetch the model again.")
    ids = ids + [tokenizer.special[name] for name in ("<|endoftext|>",) if name in tokenizer.special]
    return tuple(sorted(set(ids)))


@contextmanager
def _directory(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield path
    elif path.is_file():
        from engine.gguf_file import convert  # brings in what a directory needs not

        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            converted = Path(folder) / "model"
            convert(path, converted)
            try:
                yield converted
            except DraftlineError as error:  # whoever reads it knows the file and not what we made of it
                error.args = (str(error).replace(str(converted), str(path)),)
                raise
    else:
        raise DraftlineError(f"There is no model at {path}; give a model directory or a GGUF file.")
