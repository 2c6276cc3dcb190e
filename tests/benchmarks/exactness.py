"""Nothing is lost: every mode's text of real prompts against plain decoding's, token for token.

    python -m tests.benchmarks.exactness FOLDER [--weights int8 --weights fp32] [--output FILE] [--limit N]
    python -m tests.benchmarks.exactness FOLDER --seeds 200

Decodes HumanEval's 164 prompts and, if the model can, 50 fill-in-the-middle prompts from the Python files in
FOLDER greedily in plain, standard (a chain of 5 guesses of the trigram) and staged mode. With --seeds it
samples instead, plain and staged, with so many seeds at each of 12 settings of temperature and filter.

A text that differs is printed with the place of the first difference and the gap there: between the two
tokens that the oracle likes best, in logits (noise included, where it samples). With --output every text is
added to FILE as it is done, and what FILE has of these settings is not decoded again, so a run that was
stopped goes on. The exit code is 1 if any text differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch

from engine import CancelToken, DraftlineError, Engine, SamplingParams, load
from engine.sampling import Sampler
from model_setup.benchmark_prompts import Prompt, humaneval_prompts
from model_setup.journal import Journal
from model_setup.store import general_trigram_path, resolve_model, sha256_of
from tests.benchmarks.prompts import Decoded, decode, fim_prompts

FIM_PROMPTS = 50
GREEDY_TOKENS, SAMPLED_TOKENS = 64, 16
GREEDY = [SamplingParams(mode="standard", approximation="trigram", gamma=5), SamplingParams(mode="staged")]
TEMPERATURES = (0.2, 0.8, 1.0, 1.5)
FILTERS: tuple[dict[str, Any], ...] = ({}, {"top_k": 50}, {"top_p": 0.9})
SAMPLED = [
    SamplingParams(temperature=temperature, mode="staged", **kept)
    for temperature, kept in product(TEMPERATURES, FILTERS)
]


Once = Callable[[Prompt, SamplingParams], Decoded]


def decode_once(
    engine: Engine, journal: Journal, made_of: dict[str, str | None], prompt: Prompt, params: SamplingParams
) -> Decoded:
    """Once for each prompt and ``params``; timed with the prompt's keys and values in the cache.

    made_of: what the engine is made of, and so what its texts may depend on.
    """

    def measure() -> dict[str, Any]:
        decode(engine, prompt, replace(params, max_tokens=1))
        return asdict(decode(engine, prompt, params))

    ids = hashlib.sha256(json.dumps(prompt.ids).encode()).hexdigest()
    settings = {**made_of, "prompt": prompt.name, "ids": ids, **asdict(params)}
    return Decoded(**journal.once(settings, measure))


@dataclass
class Total:
    """What one mode did over all prompts."""

    prompts: int = 0
    tokens: int = 0
    cycles: int = 0
    seconds: float = 0.0
    differing: int = 0

    def add(self, decoded: Decoded, differs: bool) -> None:
        self.prompts += 1
        self.tokens += len(decoded.tokens)
        self.cycles += decoded.cycles
        self.seconds += decoded.seconds
        self.differing += differs

    def __str__(self) -> str:
        return (
            f"{self.prompts:5} prompts {self.tokens:7} tokens {self.differing:4} differing "
            f"{self.cycles:7} cycles {self.tokens / self.cycles:6.2f} tokens per cycle "
            f"{self.tokens / self.seconds:7.1f} tok/s"
        )


def first_difference(ours: Sequence[int], theirs: Sequence[int]) -> int | None:
    """The place of the first token that differs or is only in one; None if there is none."""
    if ours == theirs:
        return None
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(ours), len(theirs)))


@torch.inference_mode()
def top_two_gap(engine: Engine, text: Sequence[int], params: SamplingParams) -> float:
    """How far the likeliest token after ``text`` is above the second, in what the choice goes by."""
    reader = engine._oracle._reader
    reader.read(text[:-1], CancelToken())
    (row,) = reader.rows(text[-1:], [len(text) - 1], None)
    sampler = Sampler(params.temperature, params.top_k, params.top_p, params.seed)
    best = [chance for _, chance in sampler.likeliest(row, len(text), 2)]
    return math.log(best[0] / best[1]) if len(best) > 1 and best[1] > 0 else math.inf


def compare(
    engine: Engine, once: Once, cases: Iterable[tuple[Prompt, list[SamplingParams]]]
) -> dict[str, Total]:
    """Decode each prompt plain and with each of its settings; print what differs. Totals are by mode."""
    totals: dict[str, Total] = {}
    for prompt, settings in cases:
        for params in settings:
            alone = SamplingParams(
                params.max_tokens, params.temperature, params.top_k, params.top_p, params.seed, mode="plain"
            )
            plain, decoded = once(prompt, alone), once(prompt, params)
            if params is settings[0] or params.temperature > 0:  # greedy settings share one plain text
                totals.setdefault("plain", Total()).add(plain, False)
            at = first_difference(plain.tokens, decoded.tokens)
            totals.setdefault(params.mode, Total()).add(decoded, at is not None)
            if at is not None:
                gap = top_two_gap(engine, [*prompt.ids, *plain.tokens[:at]], params)
                print(
                    f"{engine.weights} {prompt.name} {params}: token {at} is "
                    f"{decoded.tokens[at : at + 1]}, plain {plain.tokens[at : at + 1]}; gap {gap:.3g}",
                    flush=True,
                )
    return totals


def check(weights: str, args: argparse.Namespace) -> int:
    """Compare all texts with ``weights``, print the summary and return how many differ."""
    model = resolve_model(args.model)
    engine = load(model, draft=args.draft, weights=weights)
    table = args.table or general_trigram_path(engine.tokenizer.fingerprint)
    engine.use_table(table)
    made_of = {
        "model": model.name,
        "weights": engine.weights,
        "draft": None if args.draft is None else args.draft.resolve().name,
        "table": sha256_of(table),
        "torch": str(torch.__version__),
    }
    once = partial(decode_once, engine, Journal(args.output), made_of)
    kinds = {"HumanEval": humaneval_prompts(engine.tokenizer)[: args.limit]}
    if "<|fim_prefix|>" in engine.tokenizer.special:
        kinds["FIM"] = fim_prompts(args.folder, FIM_PROMPTS, engine)[: args.limit]
    if args.seeds:
        prompts = [prompt for kind in kinds.values() for prompt in kind]
        tokens = args.tokens or SAMPLED_TOKENS
        cases = {
            "sampled": [
                (
                    prompts[seed % len(prompts)],
                    [replace(params, seed=seed, max_tokens=tokens) for params in SAMPLED],
                )
                for seed in range(args.seeds)
            ]
        }
    else:
        tokens = args.tokens or GREEDY_TOKENS
        settings = [replace(params, max_tokens=tokens) for params in GREEDY]
        cases = {kind: [(prompt, settings) for prompt in prompts] for kind, prompts in kinds.items()}
    different = 0
    for kind, some in cases.items():
        for mode, total in compare(engine, once, some).items():
            print(f"{weights:5} {kind:10} {mode:9}{total}", flush=True)
            different += total.differing
    return different


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="Python files for the fill-in-the-middle prompts")
    parser.add_argument("--model", help="a preset, directory or file (default: the default preset)")
    parser.add_argument("--weights", action="append", help="may be repeated (default: int8, then fp32)")
    parser.add_argument("--draft", type=Path, help="a directory of a smaller model that guesses")
    parser.add_argument("--table", type=Path, help="a trigram table (default: that of code in general)")
    parser.add_argument("--limit", type=int, help="so many prompts of each kind at most")
    parser.add_argument("--tokens", type=int, help=f"default {GREEDY_TOKENS}, with --seeds {SAMPLED_TOKENS}")
    parser.add_argument("--seeds", type=int, default=0, help="sample with so many seeds instead")
    parser.add_argument("--output", type=Path, help="add each text to this file; go on from what it has")
    args = parser.parse_args()
    try:
        different = sum(check(weights, args) for weights in args.weights or ("int8", "fp32"))
    except DraftlineError as error:
        print(error, file=sys.stderr)
        return 2
    print("no text differs" if not different else f"{different} texts differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
