"""How likely the model finds the line that the author wrote, by what the prompt holds.

    python -m tests.benchmarks.likelihood FOLDER [--cursors 60] [--kind line-start] [--elsewhere]
        [--layout NAME ...] [--output FILE]

Finer than `suggestions` on the same cursors, and cheaper: each prompt costs one pass and nothing is decoded.
Told is the negative logarithm of the probability of what is missing up to its line's end, in nats, and in how
many places the model would have written just that by itself (``hits``, with the line's end behind it). The
characters left of the cursor that ours lets the model write anew are among what it has to write there.

Beside the means stands by how many nats less than in the usual prompt that is on the same cursors, with the
middle 95 % of 10,000 bootstrap samples of them: above 0 the model doubts less. The budgets are tokens before
the cursor, behind it and of other files. --elsewhere leaves the places that other files can help: those whose
line has a name that its own file does not have yet and another one of the package has. With --output every
pass is added to FILE, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engine import CancelToken, DraftlineError, Engine, load
from lsp_server.context import ContextSource
from lsp_server.documents import Document
from lsp_server.prompt import PromptFormat
from lsp_server.prompt_budget import USUAL_BUDGET, Budget
from lsp_server.prompt_head import NOWHERE, Surroundings
from lsp_server.settings import Settings
from model_setup.journal import Journal
from model_setup.store import resolve_model, step_times_path
from tests.benchmarks.cursors import KINDS, Case, cases, names_from_elsewhere
from tests.benchmarks.new_packages import fetch
from tests.benchmarks.suggestions import ahead, as_saved, peers_prompt, place_of

USUAL = "usual"
Layout = Callable[[Engine, Case, Surroundings], tuple[list[int], str]]
"""The prompt's ids, and the characters left of the cursor that are to be written anew."""


def ours(
    engine: Engine, case: Case, around: Surroundings, seen: Callable[[Surroundings], Surroundings]
) -> tuple[list[int], str]:
    room = engine.max_context - Settings().max_tokens - 1
    prompt = PromptFormat(engine.tokenizer, engine.name).build(case.lines, case.cursor, room, seen(around))
    return prompt.ids, prompt.begins_with


def theirs(engine: Engine, case: Case, around: Surroundings, above: int, below: int) -> tuple[list[int], str]:
    ids, _, left = peers_prompt(engine, case, above, below)
    return ids, left


def _holding(budget: Budget) -> Layout:
    return partial(ours, seen=lambda around: replace(around, budget=budget))


LAYOUTS: dict[str, Layout] = {
    USUAL: partial(ours, seen=lambda around: around),
    "without other files": partial(ours, seen=lambda around: replace(around, snippets=())),
    "without any context": partial(ours, seen=lambda around: replace(NOWHERE, budget=around.budget)),
    "768, 256 and 384": _holding(Budget(768, 256, 384)),
    "1152, 256 and 384": _holding(Budget(1152, 256, 384)),
    "1400, 470 and 100": _holding(Budget(1400, 470, 100)),
    "peers 256/64": partial(theirs, above=256, below=64),
}


def read(engine: Engine, ids: list[int], text: str) -> dict[str, Any]:
    """One pass over ``text`` behind the prompt ``ids``."""
    tokenizer, reader = engine.tokenizer, engine._oracle._reader
    written = tokenizer.encode(text)
    reader.read(ids[:-1], CancelToken())
    start = reader.cache.length
    fed = [ids[-1], *written]
    visible = torch.from_numpy(np.tri(len(fed), dtype=np.bool_))
    *rows, behind = reader.rows(fed, list(range(start, start + len(fed))), visible)
    nats, alike = 0.0, True
    for row, token in zip(rows, written, strict=True):
        logits = torch.from_numpy(row.logits).double()
        nats -= float(logits.log_softmax(0)[token])
        alike &= int(logits.argmax()) == token
    end = int(behind.logits.argmax())
    ends = end in tokenizer.special.values() or tokenizer.decode([end]).lstrip(" ").startswith("\n")
    return {"nats": nats, "hit": alike and ends, "tokens": len(ids)}


def measure(
    engine: Engine, case: Case, layouts: Sequence[str], journal: Journal
) -> dict[str, dict[str, Any]]:
    with as_saved(case):
        uri = case.path.as_uri()
        context = ContextSource(case.package, background=lambda read: read())
        context.opened(uri, Document("".join(case.lines)))
        around = context.around(uri, case.lines, case.cursor)
    found = {}
    for name in layouts:
        ids, anew = LAYOUTS[name](engine, case, around)
        settings = {"model": engine.name, "weights": engine.weights, "ids": ids, **place_of(case)}
        found[name] = journal.once(settings, partial(read, engine, ids, anew + case.missing[0]))
    return found


def report(found: list[dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'':22} nats a line  hits of {len(found):3}  tokens read    less than {USUAL}")
    usual = [one[USUAL]["nats"] for one in found]
    for name in found[0]:
        nats = [one[name]["nats"] for one in found]
        mean, low, high = ahead(usual, nats)
        print(
            f"{name:22} {statistics.fmean(nats):11.3f} {sum(one[name]['hit'] for one in found):12} "
            f"{statistics.fmean(one[name]['tokens'] for one in found):12.0f}    "
            f"{mean:+.3f} ({low:+.3f} to {high:+.3f})"
        )


@torch.inference_mode()
def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cursors", type=int, default=60)
    parser.add_argument("--kind", choices=KINDS, action="append", help="may be repeated (default: both)")
    parser.add_argument("--elsewhere", action="store_true")
    others = [name for name in LAYOUTS if name != USUAL]
    parser.add_argument("--layout", choices=others, action="append", help="may be repeated (default: all)")
    parser.add_argument("--model", help="a preset, directory or file (default: the default preset)")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--output", type=Path, help="add each pass to this file; go on from what it has")
    args = parser.parse_args()
    try:
        folder = args.folder.resolve()
        fetch(folder)
        places = [case for case in cases(folder, args.cursors) if case.kind in (args.kind or KINDS)]
        if args.elsewhere:
            places = [case for case in places if names_from_elsewhere(case)]
            print(f"{len(places)} of {args.cursors} cursors need a name from elsewhere")
        if not places:
            raise DraftlineError(f"None of the {args.cursors} cursors is such a place; ask for more.")
        engine = load(resolve_model(args.model), weights=args.weights, step_times=step_times_path())
    except DraftlineError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{platform.machine()}, torch {torch.__version__}, {engine.name}, {engine.weights}, {USUAL_BUDGET}")
    journal = Journal(args.output)
    found = []
    for number, case in enumerate(places, 1):
        found.append(measure(engine, case, [USUAL, *(args.layout or others)], journal))
        if number % 10 == 0:
            print(f"{number} of {len(places)} cursors", file=sys.stderr, flush=True)
    report(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
