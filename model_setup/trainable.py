"""A draft's directory as a transformers model that can be trained, and back.

The engine's trimmed vocabulary (see `engine.trimmed_vocabulary`) has an embedding with a row for all other
tokens, and a head without one: here the head has one too, which is cut off before it is looked at.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.families import HEAD
from engine.model_files import Tensors, read_json
from engine.tokenizer import Tokenizer
from engine.trimmed_vocabulary import TOKEN_IDS

ABSENT = -1  # the row of a token that the draft cannot say


class Trainable(nn.Module):
    """token ids in, logits over the tokens that the draft can say out."""

    def __init__(self, directory: Path) -> None:
        """Read ``directory``, a model directory that the engine loads, into float32.

        Raises:
            DraftlineError: a file is missing or damaged.
        """
        super().__init__()
        self.directory = directory
        tensors = dict(Tensors(directory).items())
        vocab_size = Tokenizer(directory / "tokenizer.json").vocab_size
        token_ids = tensors.pop(TOKEN_IDS, None)
        self._dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
        self.trimmed = token_ids is not None
        ids = torch.arange(vocab_size) if token_ids is None else token_ids
        self.said = len(ids)
        rows = torch.full((vocab_size,), ABSENT)
        rows[ids] = torch.arange(len(ids))
        self.register_buffer("_token_ids", ids, persistent=False)
        self.register_buffer("_rows", rows, persistent=False)
        # no ids that the embedding has no row for: transformers warns of them, and they play no part here
        description = read_json(directory / "config.json") | {
            f"{name}_token_id": None for name in ("bos", "eos", "pad")
        }
        config = transformers.AutoConfig.for_model(description.pop("model_type"), **description)
        self.longest: int = config.max_position_embeddings
        self.model: Any = transformers.AutoModelForCausalLM.from_config(
            config, dtype=torch.float32, attn_implementation="sdpa"
        )
        if self.trimmed and f"{HEAD}.weight" in tensors:
            head = tensors[f"{HEAD}.weight"]
            tensors[f"{HEAD}.weight"] = torch.cat([head, head.new_zeros(1, head.shape[1])])
        own = self.model.state_dict()
        self._names = {name: spelled for name in tensors for spelled in _spellings(name) if spelled in own}
        self.model.load_state_dict(
            {spelled: tensors[name] for name, spelled in self._names.items()}, strict=False
        )
        self.model.tie_weights()

    def forward(self, tokens: Tensor, seen: Tensor) -> Tensor:
        """tokens: [texts, length] int64; seen: the same shape, False for padding behind a text.

        Returns [texts, length, said] float32: column i is that of the token ``token_ids[i]``.
        """
        rows = self.row_of(tokens)
        rows = torch.where(rows == ABSENT, self.said, rows)
        scores = self.model(input_ids=rows, attention_mask=seen, use_cache=False).logits
        return cast(Tensor, scores[..., : self.said].float())

    def features(self, tokens: Tensor, seen: Tensor) -> Tensor:
        """As `forward`, but what the head multiplies: [texts, length, hidden]."""
        rows = self.row_of(tokens)
        rows = torch.where(rows == ABSENT, self.said, rows)
        found = self.model.base_model(input_ids=rows, attention_mask=seen, use_cache=False)
        return cast(Tensor, found.last_hidden_state)

    @torch.no_grad()
    def translate(self, translation: Tensor) -> None:
        """Let the head read ``features @ translation``, [hidden, hidden], instead of the features."""
        head = self.model.get_output_embeddings().weight
        head.copy_(head @ translation.T)

    def row_of(self, tokens: Tensor) -> Tensor:
        """The column of each of ``tokens`` in what `forward` returns, ABSENT for those it cannot say."""
        return cast(Tensor, self._rows)[tokens]

    def best(self, scores: Tensor, count: int) -> Tensor:
        """scores: [places, said] -> the ``count`` best tokens, [places, count], the best first."""
        return cast(Tensor, self._token_ids)[scores.topk(min(count, self.said), dim=-1).indices]

    def tensors(self) -> dict[str, Tensor]:
        """Copies of the weights as they are now, named and typed as in the directory they were read from."""
        own = self.model.state_dict()
        tensors = {}
        for name, spelled in self._names.items():
            tensor = own[spelled]
            if self.trimmed and spelled == f"{HEAD}.weight":
                tensor = tensor[: self.said]
            tensors[name] = tensor.to("cpu", self._dtypes[name], copy=True).contiguous()
        if self.trimmed:
            tensors[TOKEN_IDS] = cast(Tensor, self._token_ids).cpu()
        return tensors

    def write(self, fresh: Path, tensors: dict[str, Tensor]) -> None:
        """Fill the directory ``fresh`` with a model directory of these weights."""
        for name in ("config.json", "tokenizer.json", "generation_config.json"):
            if (self.directory / name).exists():
                shutil.copyfile(self.directory / name, fresh / name)
        save_file(tensors, fresh / "model.safetensors", {"format": "pt"})


def _spellings(name: str) -> tuple[str, str]:
    """As a tensor may be called in transformers' model: GPT-2's own files leave the first part out."""
    return name, f"transformer.{name}"
