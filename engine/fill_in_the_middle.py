"""How each family of models is asked for what belongs between a prefix and a suffix."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """How one family of models is asked for the middle: ``start prefix <prefix> suffix <suffix> middle``.

    Every field but ``name`` holds names of special tokens. ``start`` opens the prompt; ``also`` must
    exist as well for a tokenizer to count as this family. ``repository``, ``file`` and ``path_behind``:
    see ``lsp_server.prompt_head.HeadFormat``.
    """

    name: str
    prefix: str
    suffix: str
    middle: str
    start: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    repository: str = ""
    file: str = ""
    path_behind: bool = False

    @property
    def required(self) -> set[str]:
        """The special tokens without which a tokenizer is not of this family."""
        return {self.prefix, self.suffix, self.middle, *self.start, *self.also}

    def write(
        self,
        special: Mapping[str, int],
        prefix: Sequence[int],
        suffix: Sequence[int],
        middle: Sequence[int] = (),
        head: Sequence[int] = (),
    ) -> list[int]:
        """The prompt's token ids. special: the tokenizer's, by name. middle: what it already begins with.

        head: what stands before the prefix's mark, behind ``start``.
        """
        return [
            *(special[name] for name in self.start),
            *head,
            *(special[self.prefix], *prefix),
            *(special[self.suffix], *suffix),
            *(special[self.middle], *middle),
        ]


# The first that fits is taken. Each is what the vendor's model card gives.
FAMILIES = (
    Family(
        "CodeGemma",
        *("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        start=("<bos>",),
        also=("<|file_separator|>",),
        file="<|file_separator|>",
    ),
    Family(
        "Qwen2.5-Coder",
        *("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
        repository="<|repo_name|>",
        file="<|file_sep|>",
    ),
    Family(
        "StarCoder, StarCoder2, Granite Code",
        *("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
        repository="<repo_name>",  # StarCoder2's
        file="<file_sep>",
        path_behind=True,
    ),
    Family(
        "DeepSeek-Coder",
        *("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"),
        start=("<｜begin▁of▁sentence｜>",),
    ),
    Family("CodeLlama", "▁<PRE>", "▁<SUF>", "▁<MID>", start=("<s>",)),
)
_BEGINNINGS_OF_TEXT = ("<|begin_of_text|>", "<s>", "<bos>", "<|endoftext|>")


def family_of(special: Collection[str]) -> Family | None:
    """The family whose special tokens are all among ``special``; None if there is none."""
    return next((family for family in FAMILIES if family.required <= set(special)), None)


def beginning_of_text(special: Mapping[str, int]) -> list[int]:
    """What a prompt opens with where a model has no such family: its mark for that, if it has one."""
    return [special[name] for name in _BEGINNINGS_OF_TEXT if name in special][:1]
