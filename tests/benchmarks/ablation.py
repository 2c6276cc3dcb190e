"""What each part of staged decoding earns: the modes, the 2x2 of tree and chain, and the papers' accounts.

    python -m tests.benchmarks.ablation FOLDER [--model M] [--draft DIR] [--weights int8] [--prompts 12]
                                        [--tokens 48] [--temperature 0] [--top-k 0] [--humaneval]

Every setting decodes the same prompts, one after the other within each prompt, the prompt already read.
Per setting: tokens a second (minimum, median, maximum over prompts), all prompts against plain, what the
cost model promised for that, tokens per cycle and how many were promised, alpha by source, c of the draft,
bytes read per token against plain (Spector & Ré 2023, table 1), operations per byte of the oracle, where
tokens came from (figure 3), and milliseconds per cycle by stage. With --alpha also E[sum min(p, q)] on
plain decoding's texts, teacher-forced, with what standard decoding would gain by it (Leviathan et al. 2022).
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import torch

from engine import Engine, SamplingParams, load
from engine.cost_model import best_gamma, improvement_factor
from engine.request import ApproximationName
from engine.sampling import Sampler
from engine.trace import Trace, teacher_forced_alpha
from model_setup.store import general_trigram_path, resolve_model
from tests.benchmarks.prompts import Prompt, fim_prompts, humaneval_prompts

STAGES = ("draft2", "draft", "oracle")


def settings(has_draft: bool) -> dict[str, SamplingParams]:
    """Name -> how to decode; plain first."""
    standard = SamplingParams(mode="standard", gamma=None)
    chosen = {"plain": SamplingParams(mode="plain"), "standard, trigram": standard}
    if has_draft:
        chosen["standard, draft"] = replace(standard, approximation="draft")
    for guessers in ("draft2", "draft", "all") if has_draft else ("draft2",):
        for shape in ("chain", "tree"):
            name = "draft + draft2" if guessers == "all" else guessers
            chosen[f"{shape}, {name}"] = SamplingParams(guessers=guessers, shape=shape)
    return chosen


class Result:
    """One setting over all prompts. promised: seconds that the cost model has for what it did."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.rates: list[float] = []
        self.promised = 0.0
        self.texts: list[list[int]] = []

    def decode(self, engine: Engine, prompt: Prompt, params: SamplingParams) -> None:
        trace, text = Trace(), []
        for cycle in engine.generate(prompt.ids, params, context_ids=prompt.context):
            text += cycle.tokens
            below = sum(spent.seconds for stage, spent in cycle.spent.items() if stage != "oracle")
            self.promised += engine.step_times(cycle.rows) + below
            trace.add(cycle)
            self.trace.add(cycle)
        self.texts.append(text)
        self.rates.append(trace.tokens / trace.seconds)

    def row(self, name: str, plain: Result, engine: Engine) -> str:
        trace = self.trace
        rate = trace.tokens / trace.seconds
        promised = trace.expected / self.promised * engine.step_times(1)
        read, read_plain = (
            sum(result.trace.bytes_per_token(stage) for stage in STAGES) for result in (self, plain)
        )
        alphas = " ".join(f"{trace.alpha(source):.2f}" for source in ("draft2", "draft"))
        origins = " ".join(f"{100 * trace.origins[stage] / trace.tokens:.0f}" for stage in STAGES)
        per_cycle = [1e3 * trace.seconds_per_token(stage) * trace.tokens_per_cycle for stage in STAGES]
        times = " ".join(f"{ms:.1f}" for ms in (*per_cycle, 1e3 * trace.other_seconds()))
        low, middle, high = min(self.rates), statistics.median(self.rates), max(self.rates)
        return (
            f"| {name} | {low:.1f} {middle:.1f} {high:.1f} | {rate:.1f} "
            f"| {rate * plain.trace.seconds / plain.trace.tokens:.2f} | {promised:.2f} "
            f"| {trace.tokens_per_cycle:.2f} ({trace.expected_per_cycle:.2f}) | {alphas} "
            f"| {trace.c('draft'):.2f} | {read / read_plain:.2f} | {trace.intensity('oracle'):.1f} "
            f"| {origins} | {times} | {self.differing(plain)} |"
        )

    def differing(self, plain: Result) -> int:
        return sum(ours != theirs for ours, theirs in zip(self.texts, plain.texts, strict=True))


HEAD = """
| setting | tok/s by prompt | all | / plain | promised | tokens a cycle (promised) | alpha draft2 draft \
| c | bytes / plain | op/byte | % of draft2 draft oracle | ms draft2 draft oracle other | texts differ |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def print_alphas(engine: Engine, prompts: list[Prompt], plain: Result, params: SamplingParams) -> None:
    """Leviathan's alpha of each approximation, and the gain of standard decoding that it foretells."""
    names: list[ApproximationName] = ["trigram", "bigram", "unigram", "lookup"]
    if engine._draft is not None:
        names.insert(0, "draft")
    sampler = Sampler(params.temperature, params.top_k, params.top_p)
    for name in names:
        alphas = []
        for prompt, text in zip(prompts, plain.texts, strict=True):
            whole = [*prompt.ids, *text]
            approximation = engine._approximation(name)
            reader = engine._oracle._reader
            alphas.append(teacher_forced_alpha(reader, approximation, whole, len(prompt.ids), sampler))
        alpha = statistics.fmean(alphas)
        c = engine._draft_times(1) / engine.step_times(1) if name == "draft" else 0.0
        gamma = best_gamma(alpha, c, 31, engine.step_times)
        print(
            f"{name}: alpha {alpha:.3f} on plain's texts, c {c:.2f}, best gamma {gamma}: "
            f"{improvement_factor(alpha, gamma, c):.2f} times plain if rows cost nothing"
        )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--weights", default="int8")
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--humaneval", action="store_true")
    parser.add_argument("--alpha", action="store_true")
    args = parser.parse_args()

    engine = load(resolve_model(args.model), draft=args.draft, weights=args.weights)
    engine.use_table(general_trigram_path(engine.tokenizer.fingerprint))
    prompts = fim_prompts(args.folder, args.prompts, engine)
    if args.humaneval:
        prompts = humaneval_prompts(engine)[: args.prompts]
    print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{engine.name}, {engine.weights}, draft {args.draft and args.draft.name}, {len(prompts)} prompts")

    common = {"max_tokens": args.tokens, "temperature": args.temperature, "top_k": args.top_k}
    results = {name: Result() for name in settings(args.draft is not None)}
    for prompt in prompts:
        reading = SamplingParams(max_tokens=1, guessers="all")
        list(engine.generate(prompt.ids, reading, context_ids=prompt.context))
        for name, params in settings(args.draft is not None).items():
            results[name].decode(engine, prompt, replace(params, **common))
    print(HEAD)
    plain = results["plain"]
    for name, result in results.items():
        print(result.row(name, plain, engine))
    if args.alpha:
        print_alphas(engine, prompts, plain, SamplingParams(**common))
    return int(any(result.differing(plain) for name, result in results.items() if "standard" not in name))


if __name__ == "__main__":
    sys.exit(main())
