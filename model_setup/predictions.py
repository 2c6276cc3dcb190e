"""What the oracle says after every token of a window: computed once, kept on disk.

Reading the repository with the oracle takes most of the time that making a draft has on a CPU, so its answers
are kept, a file for each window, named by a hash of the oracle and of the window's tokens. An interrupted run
finds what it had computed, and after an edit only the windows that changed are read again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.fused_attention import FusedAttention
from engine.placement import Placement
from engine.transformer import Transformer
from model_setup.draft_files import write_tensors
from model_setup.windows import LENGTH, Window

TOP = 8  # tokens kept at each place


@dataclass(frozen=True)
class Predictions:
    """After each of a window's n tokens: ids [n, TOP] int32, the likeliest next ones, the best first; chances
    [n, TOP] float16, their probabilities; features [n, hidden] float16, what the oracle's head made them
    of."""

    ids: Tensor
    chances: Tensor
    features: Tensor


class Answers:
    """The folder with what the oracle has said so far."""

    def __init__(self, folder: Path, identity: str) -> None:
        """identity: the same for the same oracle."""
        self._folder = folder
        self._identity = identity

    def known(self, window: Window) -> Predictions | None:
        """What it said of ``window``; None if it was not asked yet."""
        try:
            return Predictions(**load_file(self._path(window)))
        except (OSError, SafetensorError, TypeError):
            return None

    def keep(self, window: Window, said: Predictions) -> None:
        """Raises DraftlineError: no room."""
        write_tensors(
            self._path(window), {"ids": said.ids, "chances": said.chances, "features": said.features}
        )

    def _path(self, window: Window) -> Path:
        digest = hashlib.sha256(f"{self._identity} {window.ids}".encode()).hexdigest()[:32]
        return self._folder / f"{digest}.safetensors"


class Teacher:
    """The oracle, to be asked."""

    def __init__(self, oracle: Transformer, placement: Placement) -> None:
        self._oracle = oracle
        self._device = placement.device
        dtype = torch.float32 if placement.device == "cpu" else placement.cache_dtype
        self._cache = oracle.new_cache(LENGTH, dtype)

    @torch.inference_mode()
    def ask(self, window: Window) -> Predictions:
        """Read ``window``."""
        tokens = torch.tensor(window.ids, device=self._device)
        places = torch.arange(len(tokens), device=self._device)
        visible = places[:, None] >= torch.arange(LENGTH, device=self._device)
        # rounding may differ from the engine's exact attention, and with it a token where two are as good
        attend = FusedAttention(self._oracle.config, self._cache, places, visible)
        hidden = self._oracle.run(tokens, places, attend)
        top = self._oracle.logits(hidden).softmax(dim=-1).topk(TOP)
        features = self._oracle.features(hidden)
        return Predictions(top.indices.int().cpu(), top.values.half().cpu(), features.half().cpu())
