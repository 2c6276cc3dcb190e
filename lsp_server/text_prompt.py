"""A prompt as text, for a model whose tokenizer is not at hand.

A server's model may have any vocabulary, and nothing in the API tells which: token ids of another one would
be taken without a word and mean anything. So the server gets text, with the family's marks spelled out, which
its tokenizer reads as the marks that they are. It would read them so in the user's text too, and that must
stay text: a blank breaks what looks like a mark there.

What `PromptFormat` counts are pieces of text instead of tokens. Code has more of them, so a prompt is rather
somewhat shorter than it might be than too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from engine.errors import DraftlineError
from engine.fill_in_the_middle import FAMILIES, Family

_PIECE = re.compile(r"[^\w\n]?[^\W\d_]{1,7}|[ \t]{1,16}(?!\S)|[^\w\s]{1,2}|.", re.DOTALL)


@dataclass(frozen=True)
class ServedFamily:
    """A family as servers offer it. called: what its models' names have in them, as a pattern.

    names_files: whether it has the marks for repositories and files that its form may have. reserved: a
    pattern of what its tokenizers take for a mark behind "<", beside words between bars.
    """

    name: str
    called: str
    form: str
    names_files: bool = False
    reserved: str = "(?!)"

    @property
    def family(self) -> Family:
        return next(family for family in FAMILIES if self.form in family.name)


_STARCODER = (
    r"(?:fim_\w+|repo_?name|file_?\w*|gh_stars|empty_output|pr|(?:pr|issue|jupyter|commit)_\w+|NAME|EMAIL|KEY"
    r"|PASSWORD|(?:code|intermediate)_to_\w+)>"
)
SERVED = (
    ServedFamily(
        "qwen2.5-coder",
        r"qwen(2[._]?5|3)[-_]?coder",
        "Qwen2.5-Coder",
        names_files=True,
        reserved="/?(?:tool_call|tool_response|think)>",
    ),
    ServedFamily("starcoder2", "starcoder2", "StarCoder2", names_files=True, reserved=_STARCODER),
    ServedFamily("starcoder", "starcoder", "StarCoder", reserved=_STARCODER),
    ServedFamily("granite-code", r"granite-\d+b-code", "Granite Code", reserved=_STARCODER),
    ServedFamily("deepseek-coder", "deepseek-coder", "DeepSeek-Coder"),
    ServedFamily(
        "codegemma",
        "codegemma",
        "CodeGemma",
        names_files=True,
        reserved=r"(?:bos|eos|pad|unk|mask|2mass|unused\d+|(?:start|end)_of_turn)>",
    ),
    ServedFamily("codellama", r"code-?llama", "CodeLlama", reserved="(?:/?s|unk|PRE|SUF|MID|EOT)>"),
)


def served_family(model: str, named: str | None = None) -> ServedFamily:
    """The family that the user named, or else the one that the model's name tells.

    Raises:
        DraftlineError: there is no such family, or the name tells none.
    """
    for family in SERVED:
        if family.name == named or (named is None and re.search(family.called, model, re.IGNORECASE)):
            return family
    known = ", ".join(family.name for family in SERVED)
    if named is not None:
        raise DraftlineError(f"There is no server_family {named}; set it to one of {known}.")
    raise DraftlineError(
        f"The name {model} does not tell how the model is asked to fill in the middle; set server_family to "
        f"one of {known}, or choose a model of one of them."
    )


class TextPieces:
    """Stands in for a tokenizer. A piece's id is its own bytes read as a number; a mark's is negative."""

    opening = ""

    def __init__(self, served: ServedFamily) -> None:
        family = served.family
        marks = [family.prefix, family.suffix, family.middle, *family.start, *family.also]
        marks += [mark for mark in (family.repository, family.file) if mark and served.names_files]
        self.special = {mark: -1 - number for number, mark in enumerate(dict.fromkeys(marks))}
        # The server's tokenizer opens every text itself.
        self._spelled = {
            number: "" if mark in family.start else mark for mark, number in self.special.items()
        }
        self._mark = re.compile(rf"<(?=[|｜][\w▁/]+[|｜]>|{served.reserved})")
        self.ends = [mark for mark in (family.file, family.repository, family.prefix) if mark in self.special]

    def encode(self, text: str) -> list[int]:
        return [int.from_bytes(b"\1" + piece.encode(), "big") for piece in _PIECE.findall(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``; marks are left out."""
        return "".join(map(_piece, ids))

    def spell(self, ids: Iterable[int]) -> str:
        """The prompt ``ids`` as the server is to read it."""
        return "".join(
            "".join(self._spelled[mark] for mark in part)
            if is_mark
            else self._mark.sub("< ", self.decode(list(part)))
            for is_mark, part in groupby(ids, lambda number: number < 0)
        )


def _piece(number: int) -> str:
    if number < 0:
        return ""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")[1:].decode()
