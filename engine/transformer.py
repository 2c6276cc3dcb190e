"""One lean decoder forward for the supported families, tree attention included.

The forward is the same for all; where families differ (see families.py), the pieces it is made of are chosen
when a model is loaded: its norms, the function between the matrices of the MLP, whether positions are learned
or turn the heads. Rows are tokens; there is no batch of texts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.activations import ACTIVATIONS, gated
from engine.attention import ExactAttention
from engine.config import Config
from engine.kv_cache import KVCache
from engine.linear import Linear
from engine.norms import Norm
from engine.request import Cancelled, CancelToken
from engine.rotary import Rotary
from engine.trimmed_vocabulary import TrimmedVocabulary

Attend = Callable[[int, Tensor, Tensor], Tensor]
"""(layer, its queries, keys and values, the turns of queries and keys, which scale the queries) -> what the
heads saw: see `ExactAttention`."""


@dataclass(frozen=True)
class Layer:
    """One block. qkv: hidden -> (heads + 2 kv_heads) * head_dim, queries and keys paired up (see pair_up);
    head_norm: of queries and keys, where they have one; up: hidden -> intermediate, behind as many gates
    where the family gates; output, down: with the residual multiplier in them."""

    input_norm: Norm
    qkv: Linear
    head_norm: Norm | None
    output: Linear
    post_norm: Norm
    up: Linear
    down: Linear


class Transformer:
    """Weights and the forward pass. State lives in the KVCache that the caller passes in."""

    def __init__(
        self,
        config: Config,
        embedding: Tensor,
        positions: Tensor | None,
        layers: list[Layer],
        norm: Norm,
        head: Linear,
        trimmed: TrimmedVocabulary | None = None,
    ) -> None:
        """embedding: [vocab, hidden]; positions: [max_positions, hidden], where they are learned; any
        floating dtype. trimmed: which tokens embedding and head have rows for, where not for all."""
        self.config = config
        self._embedding = embedding
        self._positions = positions
        self._layers = layers
        self._norm = norm
        self._head = head
        self._trimmed = trimmed
        scales = [config.attention_scale] * config.heads + [1.0] * config.kv_heads
        self._rotary = Rotary(config.frequencies, config.magnitude, config.head_dim, scales, embedding.device)
        activation = ACTIVATIONS[config.activation]
        self._activate = gated(activation) if config.family.gated else activation
        products = [linear for layer in layers for linear in (layer.qkv, layer.output, layer.up, layer.down)]
        self._body_weights = sum(linear.weights for linear in products)
        self._body_bytes = sum(linear.weight_bytes for linear in products)

    def new_cache(self, capacity: int, dtype: torch.dtype = torch.float64) -> KVCache:
        """dtype: float64 for `forward`, whose attention is exact; what `run` is given may want another."""
        config = self.config
        device = self._embedding.device
        return KVCache(config.layers, config.kv_heads, config.head_dim, capacity, dtype, device)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: KVCache,
        visible: Tensor | None,
        cancel: CancelToken | None = None,
    ) -> Tensor:
        """Run ``tokens`` behind the committed text and what else was written behind it.

        tokens, positions: [rows] int64. visible: [rows, behind] bool, which of the slots behind the
        committed text each row sees, the last ``rows`` of them being the rows themselves (each sees itself);
        None: a single row directly behind the text. Returns the last hidden states, [rows, hidden] float32,
        for `logits`. cancel: looked at before each layer.

        Raises:
            Cancelled: it was; nothing that is committed has changed.
        """
        return self.run(tokens, positions, ExactAttention(self.config, cache, len(tokens), visible), cancel)

    def run(
        self, tokens: Tensor, positions: Tensor, attend: Attend, cancel: CancelToken | None = None
    ) -> Tensor:
        """`forward` with any attention."""
        turns = self._rotary.turns(positions)
        turning = self.config.heads + self.config.kv_heads
        x = self._embed(tokens, positions)
        for index, layer in enumerate(self._layers):
            if cancel is not None and cancel.cancelled:
                raise Cancelled
            qkv = layer.qkv(layer.input_norm(x)).view(len(tokens), -1, self.config.head_dim)
            if layer.head_norm is not None:
                qkv[:, :turning] = layer.head_norm(qkv[:, :turning])
            x += layer.output(attend(index, qkv, turns))
            x += layer.down(self._activate(layer.up(layer.post_norm(x))))
        return x

    def features(self, hidden: Tensor) -> Tensor:
        """hidden [rows, hidden] -> what the head multiplies, of the same shape."""
        return self._norm(hidden)

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [rows, hidden] -> [rows, vocab] float32; minus infinity for a token without a row."""
        logits = self._head(self.features(hidden))
        return logits if self._trimmed is None else self._trimmed.spread(logits)

    def _embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        x = self._embedding[tokens if self._trimmed is None else self._trimmed.rows(tokens)].float()
        if self._positions is not None:
            # guesses may lie beyond the last position, where no text goes on
            x += self._positions[positions.clamp(max=len(self._positions) - 1)]
        if self.config.embedding_multiplier != 1:
            x *= self.config.embedding_multiplier
        return x

    def traffic(self, rows: int, slots: int, head: bool) -> tuple[int, int]:
        """What a pass of ``rows`` that see ``slots`` of the cache takes of the weights: bytes, operations.

        With the head or without. A multiplication and its addition are two operations; those of attention
        are among them. What is small is left out: the embedding's rows, norms, activations.
        """
        config = self.config
        read = self._body_bytes + head * self._head.weight_bytes
        weights = self._body_weights + head * self._head.weights
        attention = 2 * slots * config.layers * config.heads * config.head_dim
        return read, 2 * rows * (weights + attention)
