"""A draft that knows only the tokens that its user's code is made of.

The head is the largest matrix of a small model, and most of its rows are for tokens that hardly occur
(FR-Spec, Zhao et al. 2025, arXiv 2502.14856, trims the head; here the embedding goes with it). A trimmed
model directory has a tensor ``token_ids``, int64 [kept], rising: the tokenizer's token that each row of
embedding and head stands for. The embedding has one row more, the last, which is read for every other token.
The tokenizer stays whole, so that ids mean the same in every stage.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.config import read_config
from engine.errors import DraftlineError
from engine.families import HEAD
from engine.model_files import Tensors, read_json, replaced_directory, spellings
from engine.tokenizer import Tokenizer

TOKEN_IDS = "token_ids"


class TrimmedVocabulary:
    """From the tokenizer's tokens to a trimmed model's rows, and back."""

    def __init__(self, token_ids: Tensor, vocab_size: int) -> None:
        """token_ids: [kept] int64, rising, below ``vocab_size``, the number of the tokenizer's tokens."""
        self._token_ids = token_ids
        self._vocab_size = vocab_size
        self._rows = token_ids.new_full((vocab_size,), len(token_ids))
        self._rows[token_ids] = torch.arange(len(token_ids), device=token_ids.device)

    def rows(self, tokens: Tensor) -> Tensor:
        """tokens [n] -> the embedding's rows to read for them, [n] int64."""
        return self._rows[tokens]

    def spread(self, logits: Tensor) -> Tensor:
        """logits [rows, kept] -> [rows, vocab_size], minus infinity for the tokens without a row."""
        whole = logits.new_full((len(logits), self._vocab_size), float("-inf"))
        whole.scatter_(1, self._token_ids.expand(len(logits), -1), logits)
        return whole


def read_trimmed_vocabulary(tensors: Tensors, kept: int, vocab_size: int) -> TrimmedVocabulary | None:
    """The trimmed vocabulary of a model whose head has ``kept`` rows; None if it knows every token.

    Raises:
        DraftlineError: its tokens are not ``kept`` of the tokenizer's ``vocab_size``, in rising order.
    """
    token_ids = tensors.find(TOKEN_IDS)
    if token_ids is None:
        return None
    _check_token_ids(token_ids, vocab_size, tensors.directory)
    if len(token_ids) != kept:
        raise DraftlineError(
            f"The {TOKEN_IDS} in {tensors.directory} are {len(token_ids)} where its config.json says {kept}, "
            "one less than the embedding's rows; make the draft again."
        )
    return TrimmedVocabulary(token_ids, vocab_size)


def trim_vocabulary(source: Path, target: Path, token_ids: Sequence[int]) -> None:
    """Write a copy of the model directory ``source`` that keeps only ``token_ids`` to ``target``.

    The row for all other tokens is the mean of theirs. ``target`` is replaced as a whole or not at all. Keep
    the tokens that end a text and that mark its parts: nobody insists on them.

    Raises:
        DraftlineError: ``source`` is no model directory or trimmed already, or ``token_ids`` do not rise, lie
            outside its tokenizer, or leave nothing out.
    """
    tensors = Tensors(source)
    vocab_size = Tokenizer(source / "tokenizer.json").vocab_size
    kept = torch.as_tensor(token_ids, dtype=torch.int64)
    _check_token_ids(kept, vocab_size, source)
    if tensors.find(TOKEN_IDS) is not None or len(kept) == vocab_size:
        raise DraftlineError(f"There is nothing to trim in {source}; use it as it is.")
    dropped = torch.ones(vocab_size, dtype=torch.bool)
    dropped[kept] = False
    description = read_json(source / "config.json")
    embedding = read_config(description, source).family.embedding
    trimmed: dict[str, Tensor] = {TOKEN_IDS: kept}
    for name, tensor in tensors.items():
        if name in spellings(f"{embedding}.weight"):
            unknown = tensor[:vocab_size][dropped].float().mean(dim=0, keepdim=True)
            tensor = torch.cat([tensor[kept], unknown.to(tensor.dtype)])
        elif name == f"{HEAD}.weight":
            tensor = tensor[kept]
        trimmed[name] = tensor
    description["vocab_size"] = len(kept) + 1
    with replaced_directory(target) as fresh:
        (fresh / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for name in ("tokenizer.json", "generation_config.json"):
            if (source / name).exists():
                shutil.copyfile(source / name, fresh / name)
        save_file(trimmed, fresh / "model.safetensors", {"format": "pt"})


def _check_token_ids(token_ids: Tensor, vocab_size: int, source: Path) -> None:
    if token_ids.dtype != torch.int64 or token_ids.ndim != 1 or not len(token_ids):
        raise DraftlineError(f"The {TOKEN_IDS} for {source} are no list of token ids; make the draft again.")
    if not bool((token_ids[1:] > token_ids[:-1]).all()):
        raise DraftlineError(
            f"The {TOKEN_IDS} for {source} do not rise, so some rows would stand for the wrong tokens; make "
            "the draft again."
        )
    if int(token_ids[0]) < 0 or int(token_ids[-1]) >= vocab_size:
        raise DraftlineError(
            f"The {TOKEN_IDS} for {source} lie outside its tokenizer's {vocab_size} tokens; make the draft "
            "again."
        )
