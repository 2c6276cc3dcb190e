"""One lean decoder forward for the supported families, tree attention included.

A family is a row of differences (`Config`); the forward is the same for all: RMS norm, rotary attention
with grouped keys and values, gated MLP. Rows are tokens; there is no batch of texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.attention import GRID, exact_attention, round_to_grid_
from engine.kv_cache import KVCache
from engine.linear import Linear
from engine.trimmed_vocabulary import TrimmedVocabulary


@dataclass(frozen=True)
class Config:
    """The shape of a model. qkv_bias is what tells Qwen2 from Llama."""

    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    norm_eps: float
    rope_theta: float
    vocab_size: int
    max_positions: int
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    tied_head: bool


@dataclass(frozen=True)
class Layer:
    """One block. qkv: hidden -> (heads + 2 kv_heads) * head_dim, queries and keys paired up (see pair_up);
    gate_up: hidden -> 2 * intermediate."""

    input_norm: Tensor
    qkv: Linear
    output: Linear
    post_norm: Tensor
    gate_up: Linear
    down: Linear


class Transformer:
    """Weights and the forward pass. State lives in the KVCache that the caller passes in."""

    def __init__(
        self,
        config: Config,
        embedding: Tensor,
        layers: list[Layer],
        norm: Tensor,
        head: Linear,
        trimmed: TrimmedVocabulary | None = None,
    ) -> None:
        """embedding: [vocab, hidden], any floating dtype; norms: [hidden] float32. trimmed: which tokens
        embedding and head have rows for, where not for all."""
        self.config = config
        self._embedding = embedding
        self._layers = layers
        self._norm = norm
        self._head = head
        self._trimmed = trimmed
        exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
        self._frequencies = config.rope_theta**-exponents
        products = [
            linear for layer in layers for linear in (layer.qkv, layer.output, layer.gate_up, layer.down)
        ]
        self._body_weights = sum(linear.weights for linear in products)
        self._body_bytes = sum(linear.weight_bytes for linear in products)

    def new_cache(self, capacity: int) -> KVCache:
        config = self.config
        return KVCache(config.layers, config.kv_heads, config.head_dim, capacity)

    def forward(self, tokens: Tensor, positions: Tensor, cache: KVCache, visible: Tensor | None) -> Tensor:
        """Run ``tokens`` behind the committed text and what else was written behind it.

        tokens, positions: [rows] int64. visible: [rows, behind] bool, which of the slots behind the
        committed text each row sees, the last ``rows`` of them being the rows themselves (each sees itself);
        None: a single row directly behind the text. Returns the last hidden states, [rows, hidden] float32,
        for `logits`.
        """
        config = self.config
        rows = tokens.shape[0]
        group = config.heads // config.kv_heads
        end = cache.length + (rows if visible is None else visible.shape[1])
        start = end - rows
        turns = self._turns(positions)
        hidden_rows = None if visible is None else (~visible).repeat(group, 1)
        x = self._embedding[tokens if self._trimmed is None else self._trimmed.rows(tokens)].float()
        for index, layer in enumerate(self._layers):
            qkv = layer.qkv(_rms_norm(x, layer.input_norm, config.norm_eps))
            heads = qkv.double().view(rows, -1, config.head_dim).transpose(0, 1)
            rotated = _rotate(heads[: config.heads + config.kv_heads], turns)
            keys, values = cache.keys[index], cache.values[index]
            keys[:, start:end] = round_to_grid_(rotated[config.heads :], GRID)
            values[:, start:end] = round_to_grid_(heads[config.heads + config.kv_heads :], GRID)
            queries = round_to_grid_(rotated[: config.heads].mul_(config.head_dim**-0.5), GRID)
            attended = exact_attention(
                queries.view(config.kv_heads, group * rows, config.head_dim),
                keys[:, :end],
                values[:, :end],
                hidden_rows,
            )
            attended = attended.view(config.heads, rows, config.head_dim).transpose(0, 1)
            x = x + layer.output(attended.reshape(rows, -1).float())
            gate, up = layer.gate_up(_rms_norm(x, layer.post_norm, config.norm_eps)).chunk(2, dim=1)
            x = x + layer.down(_silu(gate) * up)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden [rows, hidden] -> [rows, vocab] float32; minus infinity for a token without a row."""
        logits = self._head(_rms_norm(hidden, self._norm, self.config.norm_eps))
        return logits if self._trimmed is None else self._trimmed.spread(logits)

    def traffic(self, rows: int, slots: int, head: bool) -> tuple[int, int]:
        """What a pass of ``rows`` that see ``slots`` of the cache takes: bytes read, operations.

        Bytes of the weights, with the head's or without, and of keys and values; a multiplication and its
        addition are two operations. Both leave out what is small: the embedding's rows, norms, activations.
        """
        config = self.config
        read = self._body_bytes + head * self._head.weight_bytes
        read += 2 * 8 * slots * config.layers * config.kv_heads * config.head_dim
        weights = self._body_weights + head * self._head.weights
        attention = 2 * slots * config.layers * config.heads * config.head_dim
        return read, 2 * rows * (weights + attention)

    def _turns(self, positions: Tensor) -> Tensor:
        """positions [rows] -> [rows, head_dim / 2] complex128, the rotation of each pair (Su et al. 2021)."""
        angles = positions[:, None] * self._frequencies
        return torch.polar(torch.ones_like(angles), angles)


def _rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return functional.rms_norm(x, (x.shape[1],), weight, eps)


def _silu(x: Tensor) -> Tensor:
    # torch's own silu has another last bit where a thread's share of the elements ends, which the number
    # of rows decides; its exp has not
    return x / x.neg().exp_().add_(1)


def _rotate(x: Tensor, turns: Tensor) -> Tensor:
    """x [heads, rows, head_dim] float64 in pairs, turns [rows, head_dim / 2] -> x turned, contiguous."""
    pairs = torch.view_as_complex(x.view(*x.shape[:2], -1, 2))
    turned = torch.empty(pairs.shape, dtype=torch.complex128)
    return torch.view_as_real(torch.mul(pairs, turns, out=turned)).flatten(2)


def pair_up(weight: Tensor, head_dim: int) -> Tensor:
    """Reorder the rows of a query or key matrix (or bias) so that rotated pairs lie side by side.

    Checkpoints pair element i of a head with i + head_dim / 2. A product of a query and a key does not
    depend on the order, and adjacent pairs are complex numbers, which one multiplication turns.
    weight: [heads * head_dim, ...] -> the same shape.
    """
    halves = weight.view(-1, 2, head_dim // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)
