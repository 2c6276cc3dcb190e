"""The tensors of a model directory -> a Transformer: named by the family, stacked, paired up, packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from engine.config import Config
from engine.families import HEAD
from engine.linear import Linear, LinearKind
from engine.linear_packed import Int8Linear
from engine.model_files import Tensors
from engine.norms import Norm, layer_norm, rms_norm
from engine.rotary import pair_up
from engine.transformer import Layer, Transformer
from engine.trimmed_vocabulary import TrimmedVocabulary


def assemble(
    tensors: Tensors,
    config: Config,
    tokens: int,
    trimmed: TrimmedVocabulary | None,
    kind: LinearKind,
    on_progress: Callable[[float], None] | None = None,
) -> Transformer:
    """Read all weights. tokens: how many the head can say. on_progress: called with the fraction done.

    Raises:
        DraftlineError: a tensor is missing, or has not the shape that config.json says.
    """
    parts = _Parts(tensors, config, kind)
    family = config.family
    embedding = parts.matrix(family.embedding, config.vocab_size, config.hidden)
    matrix = embedding
    if not config.tied_head:
        matrix = parts.matrix(HEAD, config.vocab_size - (trimmed is not None), config.hidden)
    positions = None
    if family.positions is not None:
        positions = tensors.get(f"{family.positions}.weight", config.max_positions, config.hidden)
    layers = []
    with _core_each(kind) as pool:
        # the largest first; rows that pad the vocabulary stand for no token and could only win by accident
        head = pool.submit(parts.product, [matrix[:tokens]], None, 1 / config.logits_divisor)
        for built in pool.map(parts.layer, range(config.layers)):
            layers.append(built)
            tensors.forget()
            if on_progress:
                on_progress(len(layers) / (config.layers + 1))
    if on_progress:
        on_progress(1.0)
    final_norm = parts.norm(family.final_norm)
    return Transformer(config, embedding, positions, layers, final_norm, head.result(), trimmed)


@contextmanager
def _core_each(kind: LinearKind) -> Iterator[ThreadPoolExecutor]:
    """As many threads as PyTorch may use: packing a matrix keeps only one core busy.

    Those that pack int8 have one each, as what they do together leaves them waiting for one another. Floats
    are packed for as many threads as there are then.
    """
    threads = torch.get_num_threads()
    if kind is Int8Linear:
        torch.set_num_threads(1)  # what new threads begin with
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)


class _Parts:
    """The pieces of one model."""

    def __init__(self, tensors: Tensors, config: Config, kind: LinearKind) -> None:
        self._tensors = tensors
        self._config = config
        self._kind = kind

    @torch.inference_mode()
    def layer(self, index: int) -> Layer:
        config, family = self._config, self._config.family
        hidden, intermediate = config.hidden, config.intermediate
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        prefix = family.layer.format(index)
        qkv = [queries, keys, keys] if len(family.qkv) == 3 else [queries + 2 * keys]
        residual = config.residual_multiplier
        return Layer(
            input_norm=self.norm(prefix + family.input_norm),
            qkv=self._linear(prefix, family.qkv, qkv, hidden, config.qkv_bias),
            head_norm=self._head_norm(prefix) if family.head_norms else None,
            output=self._linear(prefix, [family.output], [hidden], queries, config.output_bias, residual),
            post_norm=self.norm(prefix + family.post_norm),
            up=self._linear(prefix, family.up, [intermediate] * len(family.up), hidden, config.mlp_bias),
            down=self._linear(prefix, [family.down], [hidden], intermediate, config.mlp_bias, residual),
        )

    def norm(self, name: str) -> Norm:
        config = self._config
        weight = self._tensors.get(f"{name}.weight", config.hidden).float()
        if config.family.norm == "rms":
            return rms_norm(weight, config.norm_eps)
        return layer_norm(weight, self._tensors.get(f"{name}.bias", config.hidden).float(), config.norm_eps)

    def matrix(self, name: str, out: int, width: int) -> Tensor:
        return self._tensors.get(f"{name}.weight", out, width)

    @torch.inference_mode()
    def product(self, parts: Sequence[Tensor], bias: Tensor | None, scale: float) -> Linear:
        """``parts`` one above the other as one matrix, packed."""
        weight = parts[0] if len(parts) == 1 else torch.cat(list(parts))
        if scale != 1:
            weight, bias = weight.float() * scale, None if bias is None else bias.float() * scale
        return self._kind(weight, bias)

    def _linear(
        self,
        prefix: str,
        names: Sequence[str],
        outs: Sequence[int],
        width: int,
        biased: bool,
        scale: float = 1,
    ) -> Linear:
        """Matrices that read the same input, as one product."""
        weights, biases = [], []
        for name, out in zip(names, outs, strict=True):
            if self._config.family.transposed:
                weights.append(self.matrix(prefix + name, width, out).T)
            else:
                weights.append(self.matrix(prefix + name, out, width))
            if biased:
                biases.append(self._tensors.get(f"{prefix}{name}.bias", out))
            if name in self._rotated:
                weights[-1] = self._paired(weights[-1])
                biases[-1:] = map(self._paired, biases[-1:])
        return self.product(weights, torch.cat(biases) if biased else None, scale)

    def _head_norm(self, prefix: str) -> Norm:
        config = self._config
        rows = [
            self._paired(self._tensors.get(f"{prefix}{name}.weight", config.head_dim).float()).expand(
                heads, -1
            )
            for name, heads in zip(config.family.head_norms, (config.heads, config.kv_heads), strict=True)
        ]
        return rms_norm(torch.cat(rows), config.norm_eps)

    @property
    def _rotated(self) -> Sequence[str]:
        """Queries and keys, where they are rotary: there they are matrices of their own."""
        return self._config.family.qkv[:-1]

    def _paired(self, part: Tensor) -> Tensor:
        return pair_up(part, self._config.head_dim, 2 * len(self._config.frequencies))
