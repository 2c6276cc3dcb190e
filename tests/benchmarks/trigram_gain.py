"""Tokens per cycle in a repository's held-out files: its own trigram table against that of code in general.

    python -m tests.benchmarks.trigram_gain FOLDER ... [--prompts 5] [--tokens 48] [--output FILE]

Each folder is a repository. In its held-out files the oracle fills in the middle greedily, once; that text is
the same whatever guesses, so it is then replayed with each table: the same trees, cut by the same step times,
and the oracle's part played by what it wrote. --output keeps the texts, and a later run goes on from them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine import SamplingParams, load
from engine.acceptance import walk
from engine.cost_model import StepTimes
from engine.decoding import decode as run
from engine.draft2 import Draft2
from engine.ngram import NgramTable
from engine.request import Origin, Spent
from engine.stages import Checked, Oracle, Request, Rule, coupled
from engine.tokenizer import Tokenizer
from engine.tree import TokenTree
from model_setup.benchmark_prompts import Prompt, held_out_places, place_prompt
from model_setup.corpus import CorpusReport, held_out, read_sources
from model_setup.journal import Journal
from model_setup.store import general_trigram_path, resolve_model, step_times_path
from model_setup.trigram import build_repository_trigram

ROOM = 1400  # tokens of a prompt


Texts = dict[tuple[Path, str], dict[str, Any]]
"""(folder, name of the place) -> what the oracle wrote there, and its step times."""


class Remembered(Oracle):
    """Says what the oracle has said before."""

    def __init__(self, times: StepTimes, text: Sequence[int]) -> None:
        self.times = times
        self._left = list(text)

    @property
    def times_now(self) -> StepTimes:
        return self.times

    def begin(self, request: Request) -> bool:
        return True

    def spent(self) -> dict[Origin, Spent]:
        return {"oracle": Spent()}

    def check(self, tree: TokenTree, nodes: Sequence[int], rule: Rule) -> Checked:
        text = [*self._left, *[-1] * len(tree)]
        accepted, tokens = walk(tree, nodes, lambda node: (text[tree.depths[node]], True))
        del self._left[: len(tokens)]
        return Checked(accepted, tokens, len(nodes))


def held_out_prompts(folder: Path, count: int, tokenizer: Tokenizer) -> list[Prompt]:
    sources = [source for source in read_sources(folder, CorpusReport()) if held_out(source.path)]
    return [place_prompt(place, tokenizer, ROOM) for place in held_out_places(sources)[:count]]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--prompts", type=int, default=5, help="in each folder")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    journal = Journal(args.output)
    engine = None
    tokenizer = Tokenizer(resolve_model() / "tokenizer.json")
    general = general_trigram_path(tokenizer.fingerprint)
    prompts = {folder: held_out_prompts(folder, args.prompts, tokenizer) for folder in args.folders}
    texts: Texts = {}
    for turn in range(args.prompts):
        for folder in args.folders:
            for prompt in prompts[folder][turn : turn + 1]:

                def write(prompt: Prompt = prompt) -> dict[str, Any]:
                    nonlocal engine
                    engine = engine or load(resolve_model(), draft2=general, step_times=step_times_path())
                    params = SamplingParams(max_tokens=args.tokens, stop_ids=engine.eos_ids)
                    cycles = engine.generate(prompt.ids, params, context_ids=prompt.context)
                    times = engine.step_times
                    return {
                        "text": [token for cycle in cycles for token in cycle.tokens],
                        "rows": list(times.rows),
                        "seconds": list(times.seconds),
                    }

                settings = {"folder": folder.name, "place": prompt.name, "tokens": args.tokens}
                texts[folder, prompt.name] = journal.once(settings, write)
                print(folder.name, prompt.name, len(texts[folder, prompt.name]["text"]), flush=True)
    with tempfile.TemporaryDirectory() as work:
        compare(prompts, texts, tokenizer, general, Path(work))
    return 0


def compare(
    prompts: dict[Path, list[Prompt]], texts: Texts, tokenizer: Tokenizer, general: Path, work: Path
) -> None:
    print("repository    prompts  tokens  a cycle with the general table, with its own, ratio")
    ratios, sums = [], [0, 0, 0]
    for folder, places in prompts.items():
        own = work / f"{folder.name}.trigram"
        build_repository_trigram(folder, tokenizer, own, general)
        known = [(place, texts[folder, place.name]) for place in places]
        tokens = sum(len(text["text"]) for _, text in known)
        before, after = (
            cycles_with(NgramTable(table, tokenizer.fingerprint), known) for table in (general, own)
        )
        ratios.append(before / after)
        sums = [total + more for total, more in zip(sums, (tokens, before, after), strict=True)]
        print(
            f"{folder.name:12} {len(places):8} {tokens:7}  {tokens / before:.2f} {tokens / after:.2f} "
            f"{ratios[-1]:.3f}"
        )
    tokens, before, after = sums
    print(
        f"all: {tokens / before:.2f} and {tokens / after:.2f} tokens a cycle, ratio {before / after:.3f}; "
        f"median of the repositories' ratios {statistics.median(ratios):.3f}"
    )


def cycles_with(table: NgramTable, known: Sequence[tuple[Prompt, dict[str, Any]]]) -> int:
    """The passes of the oracle that the texts take, decoded one after the other."""
    below = Draft2(table)
    cycles = 0
    for prompt, remembered in known:
        text = remembered["text"]
        oracle = Remembered(StepTimes(tuple(remembered["rows"]), tuple(remembered["seconds"])), text)
        request = Request(prompt.ids, prompt.context)
        rule = coupled(request.sampler)
        params = SamplingParams(max_tokens=max(len(text), 1))
        cycles += sum(1 for _ in run(oracle, below, rule, False, request, params)) if text else 0
    return cycles


if __name__ == "__main__":
    sys.exit(main())
