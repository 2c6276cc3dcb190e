"""What a draft is best trained for: losses against each other, from one start and on the same answers.

    python -m tests.benchmarks.draft_losses FOLDER ANSWERS [--asked 150] [--steps 100] [--rate R]
                                            [--output FILE]

FOLDER is a repository; ANSWERS, a folder, keeps what the oracle says of its windows. Each loss trains a
carved draft for so many steps, as `model-setup draft` does it, and is judged at the end by what a tree lives
on: the share of held-out places where the oracle's greedy token is the draft's first, and among its first
four.
--output keeps what was measured, and a later run goes on from it.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional

from engine.placement import placements
from engine.request import CancelToken
from engine.tokenizer import Tokenizer
from model_setup import distillation, training
from model_setup.asking import ask_oracle
from model_setup.carved_model import carved_model
from model_setup.distillation import TEXT, loss_of
from model_setup.draft import BATCH, RATES
from model_setup.draft_start import identity
from model_setup.journal import Journal
from model_setup.material import read_material
from model_setup.peers import Peers
from model_setup.predictions import Answers
from model_setup.recall import WIDTH, Example, Recall
from model_setup.store import resolve_model
from model_setup.trainable import ABSENT, Trainable
from model_setup.training import Examples, Regime, train
from model_setup.training_state import TrainingState

Loss = Callable[[Trainable, Tensor, Sequence[Example]], Tensor]
"""As `distillation.loss_of`."""


@dataclass(frozen=True)
class Variant:
    """text: the weight of the text's next token. seen: what of an example is trained on. loss: in place of
    `loss_of`."""

    text: float = TEXT
    seen: Callable[[Example], Example | None] = lambda example: example
    loss: Loss = loss_of


def greedy_alone(example: Example) -> Example:
    """The oracle's answers without their runners-up."""
    said = example.predictions
    if said is None:
        return example
    return replace(
        example, predictions=replace(said, ids=said.ids[:, :1], chances=torch.ones(len(said.ids), 1))
    )


def with_text(of_answers: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Loss:
    """The loss that takes ``of_answers`` for the examples that have some, and the text as `loss_of` does.

    of_answers: called with the scores [n, said], the oracle's likeliest tokens as columns of them [n, TOP],
    ABSENT for those that the draft cannot say, and their probabilities, [n, TOP].
    """

    def loss(model: Trainable, scores: Tensor, examples: Sequence[Example]) -> Tensor:
        total = loss_of(model, scores, [replace(example, predictions=None) for example in examples])
        for row, example in enumerate(examples):
            if example.predictions is not None:
                columns = model.row_of(example.predictions.ids.long())
                chances = example.predictions.chances.float() * (columns != ABSENT)
                own = of_answers(scores[row, : len(columns)], columns, chances)
                total = total + own / len(examples)
        return total

    return loss


def rejection(scores: Tensor, columns: Tensor, chances: Tensor) -> Tensor:
    """How often standard speculative sampling would reject: 1 - sum min(p, q) (Leviathan et al. 2022,
    corollary 3.6), the total variation distance, of those that DistillSpec compares (Zhou et al. 2023)."""
    own = scores.softmax(dim=-1).gather(-1, columns.clamp(min=0))
    return 1 - torch.minimum(own, chances).sum(dim=-1).mean()


def among_four(scores: Tensor, columns: Tensor, _chances: Tensor) -> Tensor:
    """A hinge: the score of the oracle's greedy token should be 1 above the fourth best of the others
    (Lapin, Hein & Schiele 2016, the top-k multi-class SVM)."""
    greedy = columns[:, :1]
    there = greedy[:, 0] != ABSENT
    others = scores.scatter(-1, greedy.clamp(min=0), -math.inf)
    fourth = others.topk(WIDTH, dim=-1).values[:, -1]
    hinge = functional.relu(1 + fourth - scores.gather(-1, greedy.clamp(min=0))[:, 0])
    return hinge[there].mean() if there.any() else scores.sum() * 0


def asked_alone(example: Example) -> Example | None:
    return None if example.predictions is None else example


def text_alone(example: Example) -> Example:
    return replace(example, predictions=None)


FIRST = f"the oracle's 8 likeliest, text at {TEXT}"
VARIANTS = {
    FIRST: Variant(),
    "the same, text at 0.3": Variant(0.3),
    "the same, no text": Variant(0.0),
    "the same, text at 0.3, windows with answers alone": Variant(0.3, asked_alone),
    "the oracle's greedy token, text at 0.3": Variant(0.3, greedy_alone),
    "the text alone": Variant(1.0, text_alone),
    "1 - sum min(p, q), text at 0.3": Variant(0.3, loss=with_text(rejection)),
    "hinge at the fourth, text at 0.3": Variant(0.3, loss=with_text(among_four)),
}


def trained(
    start: Path, examples: Sequence[Example], held: Sequence[Example], regime: Regime, variant: Variant
) -> tuple[Recall, Recall]:
    """Recall before and after training the draft in ``start``."""
    found: list[Recall] = []
    measured = training.shared_recall

    def last(*arguments: Any) -> Recall:
        found.append(measured(*arguments))
        return found[-1]

    shown = [seen for example in examples if (seen := variant.seen(example)) is not None]
    with (
        tempfile.TemporaryDirectory() as work,
        patch.object(distillation, "TEXT", variant.text),
        patch.object(training, "loss_of", variant.loss),
        patch.object(training, "shared_recall", last),
    ):
        state = TrainingState(Path(work, "state"), "")
        train(Trainable(start), Examples(shown), held, regime, state, Peers(0, 1, "cpu"), tell, CancelToken())
    return found[0], found[-1]


def tell(what: str, _fraction: float) -> None:
    print(f"\r{what:72}", end="", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--asked", type=int, default=150, help="windows that the oracle is asked about")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rate", type=float, default=RATES["carved"], help="of learning, at its highest")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    oracle = resolve_model(None)
    tokenizer = Tokenizer(oracle / "tokenizer.json")
    placement = placements("cpu", "auto")[0]
    peers = Peers(0, 1, "cpu")
    material = read_material(args.folder, oracle, tokenizer)
    windows, held = material.windows, material.held
    answers = Answers(args.answers, f"{identity(oracle)} {placement.weights}")
    ask_oracle(
        *(oracle, placement, answers, held, windows[: args.asked]), math.inf, peers, tell, CancelToken()
    )
    examples = [
        Example(window, answers.known(window) if number < args.asked else None)
        for number, window in enumerate(windows)
    ]
    judged = [Example(window, answers.known(window)) for window in held]
    regime = Regime(0.0, args.rate, BATCH["cpu"], args.steps, evaluations=1)
    journal = Journal(args.output)
    with tempfile.TemporaryDirectory() as work:
        start = Path(work, "start")
        model = carved_model(oracle, Path(work, "carved"), tokenizer, material.documents, examples, peers)
        start.mkdir()
        model.write(start, model.tensors())
        print(f"\n{len(windows)} windows, {args.asked} with answers")
        print(f"{args.steps} steps of {regime.batch} windows, rate {args.rate}\n")
        print("| loss | first, % | among four, % |\n|---|---|---|")
        for name, variant in VARIANTS.items():

            def measure(variant: Variant = variant) -> dict[str, Any]:
                before, after = trained(start, examples, judged, regime, variant)
                return {"before": asdict(before), "after": asdict(after)}

            settings = {
                "folder": args.folder.name,
                "asked": args.asked,
                "steps": args.steps,
                "rate": args.rate,
                "loss": name,
            }
            recalls = journal.once(settings, measure)
            before, after = (Recall(**recalls[when]) for when in ("before", "after"))
            if name == FIRST:
                print(f"\r| none: the start | {100 * before.top1:.1f} | {100 * before.top4:.1f} |")
            print(f"\r| {name} | {100 * after.top1:.1f} | {100 * after.top4:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
