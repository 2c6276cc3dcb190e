"""What the benchmarks decode: places in library files; and one decoding of one."""

from __future__ import annotations

import random
import string
import time
from dataclasses import dataclass
from pathlib import Path

from engine import DraftlineError, Engine, SamplingParams
from model_setup.benchmark_prompts import Prompt

PREFIX_CHARACTERS = 1500
SUFFIX_CHARACTERS = 600


def fim_prompts(folder: Path, count: int, engine: Engine, seed: int = 0) -> list[Prompt]:
    """Fill-in-the-middle prompts at random places of ``count`` random Python files below ``folder``."""
    rng = random.Random(seed)
    files = sorted(path for path in folder.rglob("*.py") if path.stat().st_size > 4000)
    if len(files) < count:
        raise DraftlineError(
            f"{folder} has {len(files)} Python files of more than 4000 bytes where {count} are wanted; "
            "give another folder or ask for fewer prompts."
        )
    special, encode = engine.tokenizer.special, engine.tokenizer.encode
    prompts = []
    for path in rng.sample(files, count):
        text = path.read_text(encoding="utf-8", errors="replace")
        cursor = rng.randrange(len(text) // 4, len(text) * 3 // 4)
        prefix = encode(text[max(0, cursor - PREFIX_CHARACTERS) : cursor])
        suffix = encode(text[cursor : cursor + SUFFIX_CHARACTERS])
        begin, middle, end = (special[f"<|fim_{part}|>"] for part in ("prefix", "suffix", "middle"))
        name = f"{path.relative_to(folder).as_posix()}:{cursor}"
        prompts.append(Prompt(name, [begin, *prefix, middle, *suffix, end], suffix + prefix))
    return prompts


def unforeseeable_prompts(count: int, engine: Engine, seed: int = 0) -> list[Prompt]:
    """Prompts whose continuation nobody can guess: assignments to identifiers of random letters."""
    rng = random.Random(seed)

    def identifier() -> str:
        return "".join(rng.choices(string.ascii_lowercase, k=rng.randint(5, 12)))

    prompts = []
    for number in range(count):
        lines = (f"{identifier()} = {identifier()}.{identifier()}({identifier()})\n" for _ in range(40))
        ids = engine.tokenizer.encode("".join(lines))
        prompts.append(Prompt(f"random identifiers, {number}", ids, ids))
    return prompts


@dataclass(frozen=True)
class Decoded:
    """One decoding. cycles: forward passes of the oracle that it took. seconds: of decoding."""

    tokens: list[int]
    cycles: int
    seconds: float


def decode(engine: Engine, prompt: Prompt, params: SamplingParams) -> Decoded:
    """Decode ``prompt`` once; reading it counts unless the request before began with it."""
    tokens: list[int] = []
    cycles = 0
    started = time.perf_counter()
    for cycle in engine.generate(prompt.ids, params, context_ids=prompt.context):
        tokens += cycle.tokens
        cycles += 1
    return Decoded(tokens, cycles, time.perf_counter() - started)
