"""A model's tokenizer: text to token ids and back, its special tokens, a fingerprint of its vocabulary."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from engine.errors import DraftlineError

_CONTROL = re.compile(r"<[|｜].+[|｜]>|<fim_\w+>|▁?<(PRE|SUF|MID|EOT)>")
_PRINTABLE = (range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100))  # bytes that stand for themselves


class Tokenizer:
    """Wraps ``tokenizer.json``. Special tokens in a text are text here; control tokens: see ``special``.

    opening: what the vendor's tokenizer puts before every text, and decoding takes off again: a space in
    SentencePiece vocabularies, else nothing. Here neither is done, because a prompt holds several texts;
    who wants it at the beginning of one writes it there.
    """

    def __init__(self, path: Path) -> None:
        """Read ``path``, a ``tokenizer.json``.

        Raises:
            DraftlineError: the file is missing or no tokenizer.
        """
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise DraftlineError(
                f"{path} cannot be read as a tokenizer ({error}); "
                "fetch the model again with `model-setup fetch`."
            ) from error
        self.opening = ""
        if self._tokenizer.encode("x", add_special_tokens=False).tokens[:1] in (["▁x"], ["▁"], ["Ġx"], ["Ġ"]):
            self.opening = " "
            self._tokenizer = _without_opening(self._tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        # Some vendors list control tokens as ordinary ones, as Qwen does with those for fill-in-the-middle.
        added_tokens = self._tokenizer.get_added_tokens_decoder().values()
        unmarked = [added.content for added in added_tokens if _CONTROL.fullmatch(added.content)]
        self._tokenizer.add_special_tokens(unmarked)
        self.vocab_size: int = self._tokenizer.get_vocab_size(with_added_tokens=True)
        self.special: dict[str, int] = {
            added.content: token_id
            for token_id, added in self._tokenizer.get_added_tokens_decoder().items()
            if added.special
        }

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over (id, token), so that a table of token ids is never used with another vocabulary."""
        digest = hashlib.sha256()
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        for token, token_id in sorted(vocabulary.items(), key=lambda item: item[1]):
            digest.update(f"{token_id}\0{token}\n".encode())
        return digest.hexdigest()

    def to_json(self) -> str:
        """A ``tokenizer.json`` of the same vocabulary, whose ``opening`` is empty."""
        return str(self._tokenizer.to_str())

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores."""
        return [list(e.ids) for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special tokens are left out, an unfinished UTF-8 sequence becomes U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def token_bytes(self) -> dict[int, bytes]:
        """The bytes that each token stands for, which may be part of a character; no special tokens."""
        special = set(self.special.values())
        added = {token: text.content for token, text in self._tokenizer.get_added_tokens_decoder().items()}
        pieces = self._tokenizer.get_vocab(with_added_tokens=False)
        decoder = b"" if self._tokenizer.decoder is None else self._tokenizer.decoder.__getstate__()
        if b'"ByteLevel"' in decoder:
            symbols = _byte_level_symbols()
            texts = {
                token: piece.translate(symbols).encode("latin-1", "replace")
                for piece, token in pieces.items()
            }
        else:
            space = " " if "▁".encode() in decoder else "▁"
            texts = {token: piece.replace("▁", space).encode() for piece, token in pieces.items()}
            if b'"ByteFallback"' in decoder:
                texts |= {
                    pieces[name]: bytes([at]) for at in range(0x100) if (name := f"<0x{at:02X}>") in pieces
                }
        texts |= {token: content.encode() for token, content in added.items()}
        return {token: text for token, text in texts.items() if token not in special}


def _byte_level_symbols() -> dict[int, int]:
    """The byte that each symbol of byte-level BPE stands for (Radford et al. 2019, GPT-2's encoder.py):
    printable ones for themselves, the others, in order, for the symbols from U+0100 on."""
    printable = {byte for part in _PRINTABLE for byte in part}
    others = [byte for byte in range(0x100) if byte not in printable]
    return {byte: byte for byte in printable} | {0x100 + at: byte for at, byte in enumerate(others)}


def _without_opening(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """The same tokenizer, but a text is taken and given back as it is."""
    described = json.loads(tokenizer.to_str())
    for part in ("normalizer", "pre_tokenizer", "decoder"):
        described[part] = _as_it_is(described[part])
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def _as_it_is(part: Any) -> Any:
    """A component as ``tokenizer.json`` describes it, without what it adds or removes at the beginning."""
    if isinstance(part, list):
        return [kept for kept in map(_as_it_is, part) if kept is not None]
    if not isinstance(part, dict):
        return part
    if part.get("type") in ("Prepend", "Strip"):
        return None
    if part.get("type") == "Metaspace":
        return {**part, "prepend_scheme": "never"}
    if part.get("type") == "ByteLevel":
        return {**part, "add_prefix_space": False}
    return {name: _as_it_is(value) if isinstance(value, list) else value for name, value in part.items()}
