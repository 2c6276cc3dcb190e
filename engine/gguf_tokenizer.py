"""The vocabulary of a GGUF file as a ``tokenizers.Tokenizer``: byte-level BPE, split as the family splits.

Normalisers and pre-tokenisers are those of the vendors' ``tokenizer.json`` (Qwen/Qwen2.5-Coder-0.5B,
HuggingFaceTB/SmolLM2-135M, bigcode/starcoder2-3b, openai-community/gpt2).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from engine.errors import DraftlineError

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5  # llama.cpp's token types
_QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DIGITS_APART = ("smollm", "starcoder", "refact")  # the last is Granite's
SUPPORTED_SPLITS = ("qwen2", *_DIGITS_APART, "gpt-2")


def build_tokenizer(metadata: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that ``metadata`` (of a GgufFile) describes; ids are the places in its token list.

    Tokens of type "unused" (Qwen pads its embedding to a round size with them) are left out, as in the
    vendor's tokenizer.json. Control tokens are special, and so is every user-defined ``<|...|>``.

    Raises:
        DraftlineError: another kind of vocabulary, or one that contradicts itself.
    """
    kind, split = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.pre")
    if kind != "gpt2" or split not in SUPPORTED_SPLITS:
        raise DraftlineError(
            f"The GGUF file's tokenizer {kind}/{split} is not supported; take a model whose tokenizer is "
            f"byte-level BPE (gpt2) of the kind {', '.join(SUPPORTED_SPLITS)}."
        )
    try:
        tokens: list[str] = metadata["tokenizer.ggml.tokens"]
        typed = list(zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True))
        vocabulary = {token: token_id for token_id, (token, kind) in enumerate(typed) if kind != _UNUSED}
        merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
        tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    except Exception as error:  # the library raises bare Exception
        raise DraftlineError(
            f"The GGUF file's vocabulary is damaged ({error}); download the file again."
        ) from error
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split != "qwen2")
    if split == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
        isolate = pre_tokenizers.Split(Regex(_QWEN2_SPLIT), behavior="isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([isolate, byte_level])
    elif split in _DIGITS_APART:
        digits = pre_tokenizers.Digits(individual_digits=True)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
    else:
        tokenizer.pre_tokenizer = byte_level
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(token, special=kind == _CONTROL or _is_control(token), normalized=False)
            for token, kind in typed
            if kind in (_CONTROL, _USER_DEFINED)
        ]
    )
    return tokenizer


def _is_control(token: str) -> bool:
    return token.startswith("<|") and token.endswith("|>")
