"""What each part of staged decoding earns: the modes, the 2x2 of tree and chain, and the papers' accounts.

    python -m tests.benchmarks.ablation FOLDER [--model M] [--draft DIR] [--weights int8] [--prompts 12]
                                        [--tokens 48] [--temperature 0] [--top-k 0]
                                        [--held-out | --humaneval | --unforeseeable]

Every setting decodes the same prompts, as `model-setup benchmark` does it, but to the last token asked for.
With --held-out FOLDER is a repository, and they are places in its held-out files, decoded with its own table.
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
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from engine import Engine, SamplingParams, load
from engine.cost_model import best_gamma, improvement_factor
from engine.request import ApproximationName
from engine.sampling import Sampler
from engine.trace import teacher_forced_alpha
from model_setup.benchmark_prompts import Prompt, humaneval_prompts
from model_setup.contest import Contest, modes
from model_setup.results import STAGES, Figures, Setting
from model_setup.store import general_trigram_path, resolve_model
from model_setup.trigram import build_repository_trigram
from tests.benchmarks.prompts import decode, fim_prompts, unforeseeable_prompts
from tests.benchmarks.trigram_gain import held_out_prompts

HEAD = """
| setting | tok/s by prompt | all | / plain | promised | tokens a cycle (promised) | alpha draft2 draft \
| c | bytes / plain | op/byte | % of draft2 draft oracle | ms draft2 draft oracle other | texts differ |
|---|---|---|---|---|---|---|---|---|---|---|---|---|"""


def row(figures: Figures) -> str:
    trace, rates = figures.trace, figures.rates
    alphas = " ".join(f"{trace.alpha(source):.2f}" for source in ("draft2", "draft"))
    origins = " ".join(f"{100 * share:.0f}" for share in figures.shares.values())
    per_cycle = [1e3 * trace.seconds_per_token(stage) * trace.tokens_per_cycle for stage in STAGES]
    times = " ".join(f"{ms:.1f}" for ms in (*per_cycle, 1e3 * trace.other_seconds()))
    by_prompt = f"{rates.low:.1f} {rates.middle:.1f} {rates.high:.1f}"
    return (
        f"| {figures.setting.name} | {by_prompt} | {figures.rate:.1f} "
        f"| {figures.ratio:.2f} | {figures.predicted:.2f} "
        f"| {trace.tokens_per_cycle:.2f} ({trace.expected_per_cycle:.2f}) | {alphas} "
        f"| {trace.c('draft'):.2f} | {sum(figures.bytes.values()):.2f} | {trace.intensity('oracle'):.1f} "
        f"| {origins} | {times} | {figures.differing} |"
    )


def print_alphas(engine: Engine, texts: list[tuple[Prompt, list[int]]], params: SamplingParams) -> None:
    """Leviathan's alpha of each approximation, and the gain of standard decoding that it foretells."""
    names: list[ApproximationName] = ["trigram", "bigram", "unigram", "lookup"]
    if engine._draft is not None:
        names.insert(0, "draft")
    sampler = Sampler(params.temperature, params.top_k, params.top_p)
    for name in names:
        alphas = []
        for prompt, text in texts:
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
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--humaneval", action="store_true")
    parser.add_argument("--unforeseeable", action="store_true", help="prompts of random identifiers instead")
    parser.add_argument("--alpha", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        return compare(args, Path(work))


def compare(args: argparse.Namespace, work: Path) -> int:
    engine = load(resolve_model(args.model), draft=args.draft, weights=args.weights)
    table = general_trigram_path(engine.tokenizer.fingerprint)
    if args.held_out:
        prompts = held_out_prompts(args.folder, args.prompts, engine.tokenizer)
        own = work / "own.trigram"
        table = build_repository_trigram(args.folder, engine.tokenizer, own, table).path
    elif args.humaneval:
        prompts = humaneval_prompts(engine.tokenizer)[: args.prompts]
    elif args.unforeseeable:
        prompts = unforeseeable_prompts(args.prompts, engine)
    else:
        prompts = fim_prompts(args.folder, args.prompts, engine)
    engine.use_table(table)
    print(f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"{engine.name}, {engine.weights}, draft {args.draft and args.draft.name}, {len(prompts)} prompts")

    common: dict[str, Any] = {
        "max_tokens": args.tokens,
        "temperature": args.temperature,
        "top_k": args.top_k,
    }
    settings = {
        Setting("", "", name): (engine.with_table(table), replace(params, **common))
        for name, params in modes(args.draft is not None).items()
    }
    contest = Contest(settings)
    outcomes, texts = [], []
    for number, prompt in enumerate(prompts):
        decode(engine, prompt, SamplingParams(max_tokens=1))  # the prompt is read
        outcomes.append(contest.decode(prompt, number))
        if args.alpha:
            plain = decode(engine, prompt, SamplingParams(mode="plain", **common))
            texts.append((prompt, plain.tokens))
    print(HEAD)
    by_setting = list(zip(*outcomes, strict=True))
    rows = [Figures(setting, done, by_setting[0]) for setting, done in zip(settings, by_setting, strict=True)]
    print("\n".join(map(row, rows)))
    if args.alpha:
        print_alphas(engine, texts, SamplingParams(**common))
    return int(any(each.differing for each in rows if "standard" not in each.setting.name))


if __name__ == "__main__":
    sys.exit(main())
