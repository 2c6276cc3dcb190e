"""How many tokens of what a prompt holds."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX_TOKENS = 1152
SUFFIX_TOKENS = 384
HEAD_TOKENS = 384  # of repository, other files' snippets and path; a quarter of the prompt where it is short
CONTEXT_TOKENS = PREFIX_TOKENS + SUFFIX_TOKENS + HEAD_TOKENS
CHARACTERS_PER_TOKEN = 3  # what code has at least, nearly always; where it has less, the window shrinks


@dataclass(frozen=True)
class Budget:
    """How many tokens each part of a prompt has at most."""

    prefix: int = PREFIX_TOKENS
    suffix: int = SUFFIX_TOKENS
    head: int = HEAD_TOKENS

    @staticmethod
    def of(context_tokens: int) -> Budget:
        """The usual parts of so many tokens in all."""
        usual = (PREFIX_TOKENS, SUFFIX_TOKENS, HEAD_TOKENS)
        return Budget(*(part * context_tokens // CONTEXT_TOKENS for part in usual))

    def shorter(self) -> Budget:
        """Two thirds of it, and nothing of other files: what stands round the cursor tells most."""
        return Budget(self.prefix * 2 // 3, self.suffix * 2 // 3, 0)


USUAL_BUDGET = Budget()
