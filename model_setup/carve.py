"""A small model cut out of a large one: a few of its layers, and the tokens that code is made of.

What a pass costs is the bytes it reads, so the size that counts is that of layers and head; of the embedding
only single rows are read. What was cut has to be trained: nothing fits any more.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import save_file
from torch import Tensor

from engine.config import Config, read_config
from engine.families import HEAD
from engine.model_files import Tensors, read_json, replaced_directory, spellings
from engine.tokenizer import Tokenizer
from engine.trimmed_vocabulary import trim_vocabulary

SMALLER = 15  # times, about: the ratio of the papers' pairs
COVERED = 0.95  # of the tokens that occur
_LAYER_LISTS = ("layer_types",)  # values of config.json with one entry a layer


@dataclass(frozen=True)
class Size:
    """Parameters that a pass reads. layer: of one layer. head: of the head. row: of the head, for one
    token."""

    layers: int
    layer: int
    head: int
    row: int

    @property
    def whole(self) -> int:
        return self.layers * self.layer + self.head


@dataclass(frozen=True)
class Carving:
    """layers: those kept, by their numbers in the oracle. tokens: how many are kept. parameters: that a pass
    of the draft reads; oracle_parameters: that one of the oracle does."""

    layers: tuple[int, ...]
    tokens: int
    parameters: int
    oracle_parameters: int


def read_size(model: Path) -> Size:
    """The size of the model directory ``model``.

    Raises:
        DraftlineError: it is not a model that the engine runs.
    """
    config = read_config(read_json(model / "config.json"), model)
    pattern, tensors = _layer_pattern(config), Tensors(model)
    layers = sum(count for name, count in tensors.sizes().items() if pattern.match(name))
    rows = config.vocab_size
    return Size(config.layers, layers // config.layers, rows * config.hidden, config.hidden)


def plan_carving(oracle: Path, counts: NDArray[np.float64]) -> Carving:
    """How to carve a draft about SMALLER times smaller out of the model directory ``oracle``.

    counts: [vocab] how often each token occurs. Kept are the tokens that make up COVERED of all, as long as
    they take no more than half of the size; the rest is for layers, at least one.

    Rather another layer than rare tokens: of Qwen2.5-Coder-0.5B, two layers and 8192 tokens foretold 19.0 %
    of 815 places first and 34.8 % among four, one layer and 16,384 tokens 16.3 and 29.8 % (both about 1/15;
    untrained, the head translated on 12 windows).

    Raises:
        DraftlineError: it is not a model that the engine runs.
    """
    size = read_size(oracle)
    wanted_size = size.whole / SMALLER
    shares = np.cumsum(np.sort(counts)[::-1]) / max(1, counts.sum())
    wanted = int(np.searchsorted(shares, COVERED)) + 1
    tokens = max(1, min(wanted, int(wanted_size / 2 / size.row)))
    count = max(1, min(size.layers, round((wanted_size - tokens * size.row) / size.layer)))
    parameters = count * size.layer + tokens * size.row
    return Carving(chosen_layers(size.layers, count), tokens, parameters, size.whole)


def chosen_layers(layers: int, count: int) -> tuple[int, ...]:
    """The first ones: what goes into each of them is what went in before."""
    return tuple(range(min(count, layers)))


def frequent_tokens(counts: NDArray[np.float64], count: int, always: Sequence[int]) -> list[int]:
    """``always`` and the most frequent tokens, ``count`` in all, rising."""
    kept = set(always)
    for token in np.argsort(-counts, kind="stable"):
        if len(kept) >= count:
            break
        kept.add(int(token))
    return sorted(kept)


def carve(oracle: Path, target: Path, layers: Sequence[int], token_ids: Sequence[int] | None) -> None:
    """Write the layers ``layers`` of the model directory ``oracle`` as a model directory to ``target``.

    token_ids: the tokens kept, rising; None keeps all. The head becomes a matrix of its own, if it was the
    embedding: reading it costs the same. ``target`` is replaced as a whole or not at all.

    Raises:
        DraftlineError: see `trim_vocabulary`.
    """
    if token_ids is None or len(token_ids) == Tokenizer(oracle / "tokenizer.json").vocab_size:
        with replaced_directory(target) as fresh:
            _keep_layers(oracle, fresh, layers)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        _keep_layers(oracle, Path(scratch), layers)
        trim_vocabulary(Path(scratch), target, token_ids)


def _keep_layers(oracle: Path, target: Path, layers: Sequence[int]) -> None:
    description = read_json(oracle / "config.json")
    config = read_config(description, oracle)
    numbers = {old: new for new, old in enumerate(layers)}
    kept: dict[str, Tensor] = {}
    for name, tensor in Tensors(oracle).items():
        parts = _layer_pattern(config).match(name)
        if parts is None:
            kept[name] = tensor
        elif int(parts[2]) in numbers:
            kept[f"{parts[1]}{numbers[int(parts[2])]}{name[parts.end(2) :]}"] = tensor
    for key in ("num_hidden_layers", "n_layer"):
        if key in description:
            description[key] = len(layers)
    if config.tied_head:
        description["tie_word_embeddings"] = False
        embedding = next(
            kept[name] for name in spellings(f"{config.family.embedding}.weight") if name in kept
        )
        kept[f"{HEAD}.weight"] = embedding.clone()
    for key in _LAYER_LISTS:
        if isinstance(description.get(key), list):
            description[key] = [description[key][layer] for layer in layers]
    (target / "config.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")
    for name in ("tokenizer.json", "generation_config.json"):
        if (oracle / name).exists():
            shutil.copyfile(oracle / name, target / name)
    save_file(kept, target / "model.safetensors", {"format": "pt"})


def _layer_pattern(config: Config) -> re.Pattern[str]:
    """Matches a tensor of a layer: what stands before the number, and the number."""
    before = config.family.layer.partition("{}")[0]
    short = before.removeprefix("transformer.")  # GPT-2's own files
    return re.compile(rf"({re.escape(before)}|{re.escape(short)})(\d+)\.")
