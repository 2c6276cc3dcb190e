"""How often the oracle's token is among the first four of a repository's draft, of its table, and of both.

    python -m tests.benchmarks.draft_recall FOLDER DRAFT ANSWERS

FOLDER is a repository, DRAFT the directory of its draft (`model-setup status` tells where), and ANSWERS keeps
what the oracle says of the held-out windows. A tree lives on these shares: a node's children are the draft's
first four and the table's (see `model_setup.draft_plan`, which reckons with them).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from engine.ngram import NgramTable
from engine.placement import placements
from engine.request import CancelToken
from engine.tokenizer import Tokenizer
from model_setup.asking import ask_oracle
from model_setup.draft_start import identity
from model_setup.material import read_material
from model_setup.peers import Peers
from model_setup.predictions import Answers
from model_setup.recall import WIDTH, Example
from model_setup.store import general_trigram_path, resolve_model
from model_setup.trainable import Trainable
from model_setup.training import guesses_and_truth
from model_setup.trigram import build_repository_trigram


@torch.no_grad()
def draft_hits(model: Trainable, examples: Sequence[Example]) -> list[bool]:
    """For each judged place, whether the oracle's token is among the draft's first WIDTH."""
    found = guesses_and_truth(model, examples, "cpu")
    return [bool(hit) for guesses, truth in found for hit in (guesses == truth[:, None]).any(dim=1)]


def table_hits(table: NgramTable, example: Example) -> list[bool]:
    """As `draft_hits`, of one example."""
    assert example.predictions is not None
    ids, judged = example.window.ids, example.window.judged
    greedy = example.predictions.ids[judged:, 0].tolist()
    return [
        token in table.top(ids[max(0, place - 1) : place + 1], WIDTH)[0]
        for place, token in enumerate(greedy, start=judged)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("answers", type=Path)
    args = parser.parse_args()
    oracle = resolve_model(None)
    tokenizer = Tokenizer(oracle / "tokenizer.json")
    placement = placements("cpu", "auto")[0]
    held = read_material(args.folder, oracle, tokenizer).held
    answers = Answers(args.answers, f"{identity(oracle)} {placement.weights}")
    peers = Peers(0, 1, "cpu")
    ask_oracle(oracle, placement, answers, held, [], 0.0, peers, lambda *_: None, CancelToken())
    examples = [Example(window, answers.known(window)) for window in held]
    general = general_trigram_path(tokenizer.fingerprint)
    model = Trainable(args.draft).eval()
    with tempfile.TemporaryDirectory() as work:
        own = Path(work, "own.trigram")
        build_repository_trigram(args.folder, tokenizer, own, general)
        tables = {"general": general, "repository's": own}
        by_draft = draft_hits(model, examples)
        print(f"{len(by_draft)} places; the draft: {share(by_draft)}")
        for name, path in tables.items():
            table = NgramTable(path, tokenizer.fingerprint)
            by_table = [hit for example in examples for hit in table_hits(table, example)]
            either = [one or other for one, other in zip(by_draft, by_table, strict=True)]
            print(f"the {name} table: {share(by_table)}, that or the draft: {share(either)}")
    return 0


def share(hits: list[bool]) -> str:
    return f"{100 * sum(hits) / len(hits):.1f} %"


if __name__ == "__main__":
    sys.exit(main())
