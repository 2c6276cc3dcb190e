"""A draft as a model directory that transformers and vLLM load, for a team that serves the oracle itself."""

from __future__ import annotations

import json
import shutil
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.checkpoint import check_directory
from engine.config import read_config
from engine.errors import DraftlineError
from engine.families import HEAD
from engine.model_files import Tensors, read_json, replaced_directory, spellings
from engine.tokenizer import Tokenizer
from engine.trimmed_vocabulary import TOKEN_IDS
from model_setup.draft_files import room_for
from model_setup.draft_start import read_training
from model_setup.general_code import general_texts
from model_setup.trainable import Trainable

NEVER = -100.0  # the logit that a token is to have that the draft cannot say
GUESSES = 5  # tokens a pass, as in vLLM's own examples
TEXTS = 16  # on which NEVER is fitted, of
CHARACTERS = 1000  # each
RIDGE = 1e-4  # of the mean square of the features


def export_draft(draft: Path, to: Path) -> str:
    """Write the draft in the directory ``draft`` to the directory ``to``; returns vLLM's
    ``speculative_config``.

    A trimmed vocabulary is spread over all tokens again, and over as many rows as the oracle has, since vLLM
    wants both models to have the same. In the embedding each token gets the row that the draft reads for it.
    The head has no bias by which a token could be ruled out, so the row of one that the draft cannot say is
    that combination of features which is nearest to the constant NEVER, by least squares on some code: it
    comes out far below the others, but not minus infinity. The weights' dtype is kept.

    Raises:
        DraftlineError: ``draft`` is no draft that the engine runs, or ``to`` is there already or cannot be
        written.
    """
    check_directory(draft)
    if to.exists():
        raise DraftlineError(f"{to} is there already; name a folder that is not.")
    tensors = dict(Tensors(draft).items())
    description = read_json(draft / "config.json")
    token_ids = tensors.pop(TOKEN_IDS, None)
    if token_ids is not None:
        embedding = read_config(description, draft).family.embedding
        name = next(name for name in spellings(f"{embedding}.weight") if name in tensors)
        rows = read_training(draft).get("oracle_rows", Tokenizer(draft / "tokenizer.json").vocab_size)
        head = tensors.get(f"{HEAD}.weight", tensors[name][:-1])
        never = _never(draft).to(head.dtype)
        tensors[f"{HEAD}.weight"] = _spread(head, token_ids, never, rows)
        tensors[name] = _spread(tensors[name][:-1], token_ids, tensors[name][-1], rows)
        description |= {"vocab_size": rows, "tie_word_embeddings": False}
    with room_for(to), replaced_directory(to) as fresh:
        (fresh / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
        for file in ("tokenizer.json", "generation_config.json"):
            if (draft / file).exists():
                shutil.copyfile(draft / file, fresh / file)
        save_file(tensors, fresh / "model.safetensors", {"format": "pt"})
    return json.dumps({"model": str(to), "num_speculative_tokens": GUESSES, "method": "draft_model"})


def _spread(kept: Tensor, token_ids: Tensor, other: Tensor, rows: int) -> Tensor:
    """[rows, hidden]: ``kept`` at the rows ``token_ids``, ``other`` everywhere else."""
    whole = other.expand(rows, -1).clone()
    whole[token_ids] = kept
    return whole


@torch.no_grad()
def _never(draft: Path) -> Tensor:
    """[hidden]: what, multiplied with the draft's features, is nearest to NEVER wherever one looks."""
    model = Trainable(draft)
    tokenizer = Tokenizer(draft / "tokenizer.json")
    texts = [text[:CHARACTERS] for text in islice(general_texts(), TEXTS)]
    found = []
    for ids in tokenizer.encode_batch(texts):
        tokens = torch.tensor([ids[: model.longest]])
        if tokens.numel():
            found.append(model.features(tokens, torch.ones_like(tokens, dtype=torch.bool))[0].double())
    features = torch.cat(found)
    square = features.T @ features
    square += RIDGE * square.diagonal().mean() * torch.eye(len(square), dtype=square.dtype)
    wanted = features.T @ torch.full((len(features),), NEVER, dtype=square.dtype)
    combination: Tensor = torch.linalg.solve(square, wanted)
    return combination
