"""A model's tokenizer: text to token ids and back, its special tokens, a fingerprint of its vocabulary."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

from engine.errors import DraftlineError

_CONTROL = re.compile(r"<[|｜].+[|｜]>|<fim_\w+>|▁<(PRE|SUF|MID|EOT)>")


class Tokenizer:
    """Wraps ``tokenizer.json``. Special tokens in a text are text here; control tokens: see ``special``."""

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

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores."""
        return [list(e.ids) for e in self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; special tokens are left out, an unfinished UTF-8 sequence becomes U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
