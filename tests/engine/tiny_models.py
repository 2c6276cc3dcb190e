"""Tiny random models as transformers writes them, with a byte-level tokenizer, and ways to run them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch import Tensor

from engine.checkpoint import Weights, load_checkpoint
from engine.kv_cache import KVCache
from engine.request import CancelToken
from engine.transformer import Transformer
from tests.engine.byte_tokenizer import SPECIAL, write_tokenizer

TOKENS = 256 + len(SPECIAL)  # what the tokenizer knows: every byte and the control tokens
PADDED = TOKENS + 12  # what the model's matrices have room for

SIZES: dict[str, Any] = {
    "vocab_size": PADDED,
    "hidden_size": 64,
    "intermediate_size": 97,  # no multiple of a vector's lanes
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 192,
    "tie_word_embeddings": False,
}
ROW_COUNTS = (*range(1, 34), 40, 55, 61, 64)  # where a row must be the same to the last bit
EOS: dict[str, dict[str, Any]] = {  # where the family's own end of a text is not in our tokenizer
    family: {"bos_token_id": None, "eos_token_id": None} for family in ("gpt2", "gpt_bigcode", "starcoder2")
}


def write_sentencepiece(path: Path, special: Sequence[str], by_normalizer: bool = True) -> None:
    """As Llama's: a space goes before every text, and what is no token is written byte by byte.

    special: listed as ordinary tokens, as Code Llama's are. by_normalizer: or by the pre-tokenizer.
    """
    pieces = [
        *(f"<0x{byte:02X}>" for byte in range(256)),
        "▁",
        *"abx",
        "▁x",
        "<",
        "P",
        "R",
        "E",
        ">",
        *special,
    ]
    model = models.BPE({piece: i for i, piece in enumerate(pieces)}, [("▁", "x")], byte_fallback=True)
    tokenizer = tokenizers.Tokenizer(model)
    if by_normalizer:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_tokens(list(special))
    tokenizer.save(str(path))


def write_model(directory: Path, family: str = "qwen2", seed: int = 0, **sizes: Any) -> Path:
    """A random model with its tokenizer. sizes: values of its config.json that differ from SIZES.

    Weights are wide enough that greedy texts vary, and biases and norms are not the trivial ones.
    """
    sizes = {**SIZES, **EOS.get(family, {}), **sizes}
    if family.startswith("gpt"):
        del sizes["num_key_value_heads"]
        sizes["n_inner"] = sizes.pop("intermediate_size")
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **sizes))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name or ".ln_" in name
            spread = 1.0 if "embed" in name or ".wte." in name or ".wpe." in name else 0.2
            mean = 1.0 if norm and name.endswith("weight") else 0.0
            parameter.normal_(mean, spread, generator=generator)
    model.save_pretrained(directory)
    write_tokenizer(directory / "tokenizer.json")
    return directory


def change_config(directory: Path, remove: Sequence[str] = (), **values: Any) -> None:
    """Rewrite ``config.json`` with ``values`` and without the keys in ``remove``."""
    path = directory / "config.json"
    description = json.loads(path.read_text(encoding="utf-8"))
    description = {key: value for key, value in description.items() if key not in remove} | values
    path.write_text(json.dumps(description), encoding="utf-8")


def load_tiny(directory: Path, weights: Weights = "fp32") -> Transformer:
    return load_checkpoint(directory, weights).transformer


def load_reference(directory: Path) -> Any:
    """The same model in transformers."""
    return transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    )


@torch.inference_mode()
def reference_logits(model: Any, tokens: Sequence[int]) -> Tensor:
    """[tokens, vocab], a plain forward of transformers over the whole text."""
    logits: Tensor = model(torch.tensor([list(tokens)])).logits[0]
    return logits


@torch.inference_mode()
def linear_logits(model: Transformer, tokens: Sequence[int], cache: KVCache, chunk: int = 1) -> Tensor:
    """[tokens, vocab]: append ``tokens`` to the committed text, ``chunk`` at a time."""
    logits = []
    for first in range(0, len(tokens), chunk):
        part = torch.tensor(tokens[first : first + chunk])
        rows, start = len(part), cache.length
        visible = torch.ones(rows, rows, dtype=torch.bool).tril() if rows > 1 else None
        hidden = model.forward(part, torch.arange(start, start + rows), cache, visible)
        logits.append(model.logits(hidden))
        cache.commit(range(start, start + rows))
    return torch.cat(logits)


@torch.inference_mode()
def tree_logits(
    model: Transformer, cache: KVCache, tokens: Sequence[int], parents: Sequence[int], read: int = 0
) -> Tensor:
    """[nodes - read, vocab]: check a tree behind the committed text. Nothing is committed.

    parents: each node's parent, -1 for none; parents come before their children. read: so many nodes, the
    first ones, were read by the call before.
    """
    paths = [path_of(parents, node) for node in range(len(tokens))]
    visible = torch.zeros(len(tokens), len(tokens), dtype=torch.bool)
    for node, path in enumerate(paths):
        visible[node, path] = True
    positions = torch.tensor([cache.length + len(path) - 1 for path in paths])
    return model.logits(model.forward(torch.tensor(tokens[read:]), positions[read:], cache, visible[read:]))


def path_of(parents: Sequence[int], node: int) -> list[int]:
    """The nodes from a root to ``node``, both included."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def committed(cache: KVCache) -> list[Tensor]:
    """Copies of the keys and values of the committed text, layer by layer."""
    return [tensor[:, : cache.length].clone() for tensor in (*cache.keys, *cache.values)]


def same(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> bool:
    """Bit for bit."""
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def greedy(model: Transformer, text: list[int], count: int) -> list[int]:
    """The definition: one token at a time, the likeliest next."""
    cache, output = model.new_cache(len(text) + count), []
    logits = linear_logits(model, text, cache)
    for _ in range(count):
        output.append(int(logits[-1].argmax()))
        logits = linear_logits(model, output[-1:], cache)
    return output


class CancelAtLook(CancelToken):
    """Cancelled from the n-th look on."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self.looks = looks

    @property
    def cancelled(self) -> bool:
        self.looks -= 1
        return self.looks < 0
