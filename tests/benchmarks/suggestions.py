"""How often a suggestion is what the author wrote, against the closest peers' way on the same weights.

    python -m tests.benchmarks.suggestions FOLDER [--cursors 200] [--variant NAME ...] [--output FILE]

Fetches into FOLDER the packages of ``new_packages.json``, which no model published before 2026 has seen, and
asks for a suggestion at each of the cursors of ``cursors.py`` in every variant:

- ``pipeline``: all of ours, context and ``Completer``, as the server uses them, without its time limit;
- ``without ...`` and others: the same without one of its steps, or with another choice in it, so that one
  sees what it earns;
- ``peers 256/64``, ``peers 64/16``: so many lines above and below the cursor in the model's
  fill-in-the-middle template, 128 tokens, the first line kept. As llama.vim and llama.vscode have it, the
  indentation of a line without text is left to the model and taken off the answer, and what is longer than
  the context is cut to 3/4 above and 1/4 below the cursor (llama.cpp's server does so). Tokens are counted,
  and the clock stopped, at the first line's end, which no peer does.

All decode greedily with the same engine, staged, so their texts are plain decoding's. Every prompt is read
cold: the engine is made to forget the one before.

A text is compared with what was taken out at the cursor: ``first line`` is right if it is the rest of the
line (of a new line: the next line), ``all`` if the whole suggestion is all that is missing, trailing blanks
aside. Similarity is difflib's, from 0 to 1, of the first lines. Below the table stands by how much
``pipeline`` is ahead of each other variant on the same cursors, with the middle 95 % of 10,000 bootstrap
samples of the cursors. With --output every answer is added to FILE, and a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch

import lsp_server
from engine import CancelToken, DraftlineError, Engine, SamplingParams, load
from engine.fill_in_the_middle import family_of
from lsp_server.completer import Completer
from lsp_server.context import ContextSource
from lsp_server.documents import Document, split_lines
from lsp_server.prompt_budget import CONTEXT_TOKENS, Budget
from lsp_server.prompt_head import NOWHERE, Surroundings
from lsp_server.writer import EngineWriter
from model_setup.journal import Journal
from model_setup.store import general_trigram_path, resolve_model, sha256_of, step_times_path
from tests.benchmarks.cursors import Case, cases
from tests.benchmarks.new_packages import fetch

OURS = "pipeline"
PEERS_TOKENS = 128
RESAMPLES = 10_000


class Answer(NamedTuple):
    text: str
    tokens: int


Variant = Callable[[Engine, Case], Answer]


def pipeline(
    engine: Engine,
    case: Case,
    seen: Callable[[Surroundings], Surroundings] = lambda around: around,
    changed: Mapping[str, Any] = MappingProxyType({}),
) -> Answer:
    """Ours as the server does it, with nothing remembered from the cursor before and no other document open.

    seen: what is shown of the surroundings that were found. changed: other things under names of
    ``lsp_server``.
    """
    uri = case.path.as_uri()
    context = ContextSource(case.package, background=lambda read: read())
    context.opened(uri, Document("".join(case.lines)))
    around = seen(context.around(uri, case.lines, case.cursor))
    with ExitStack() as stack:
        for name, other in changed.items():
            stack.enter_context(mock.patch(f"lsp_server.{name}", other))
        suggestion = Completer(EngineWriter(engine)).complete(
            case.lines, case.cursor, CancelToken(), around=around
        )
    return Answer(suggestion.text, len(suggestion.tokens))


def peers_prompt(engine: Engine, case: Case, above: int, below: int) -> tuple[list[int], list[int], str]:
    """The prompt's ids, those of its prefix, and the line's indentation if that is left to the model."""
    special, encode = engine.tokenizer.special, engine.tokenizer.encode
    family = family_of(special)
    assert family is not None, "the default model fills in the middle"
    row, column = case.cursor.line, case.cursor.character
    typed = case.lines[row][:column]
    left_to_the_model = typed if not typed.strip() else ""
    upper = "".join(case.lines[max(0, row - above) : row]) + typed.removesuffix(left_to_the_model)
    lower = case.lines[row][column:] + "".join(case.lines[row + 1 : row + 1 + below])
    room = engine.max_context - PEERS_TOKENS - len(family.start) - 3
    prefix = encode(upper)[-(room * 3 // 4) :]
    ids = family.write(special, prefix, encode(lower)[: room // 4])
    return ids, prefix, left_to_the_model


def peers(engine: Engine, case: Case, above: int, below: int) -> Answer:
    ids, prefix, left_to_the_model = peers_prompt(engine, case, above, below)
    stop_ids = (*engine.eos_ids, *engine.tokenizer.special.values())
    written: list[int] = []
    text = ""
    for cycle in engine.generate(ids, SamplingParams(PEERS_TOKENS, stop_ids=stop_ids), context_ids=prefix):
        for token in cycle.tokens:
            written.append(token)
            text = engine.tokenizer.decode(written)
            if "\n" in text:
                return Answer(text.split("\n")[0].removeprefix(left_to_the_model), len(written))
    return Answer(text.removeprefix(left_to_the_model), len(written))


VARIANTS: dict[str, Variant] = {
    "pipeline": pipeline,
    "without other files": partial(pipeline, seen=lambda around: replace(around, snippets=())),
    "without any context": partial(pipeline, seen=lambda around: NOWHERE),
    "half the context": partial(
        pipeline, seen=lambda around: replace(around, budget=Budget.of(CONTEXT_TOKENS // 2))
    ),
    "all in the prefix": partial(pipeline, changed={"prompt.ANCHOR_LINES": 1 << 30}),
    "the line in the middle": partial(pipeline, changed={"prompt.ANCHOR_LINES": 1}),
    "without healing": partial(pipeline, changed={"prompt._MOST_HEALED": 0}),
    "without trimming": partial(pipeline, changed={"completer.trim": lambda text, *_, **__: text}),
    "without repetition cut": partial(
        pipeline, changed={"stopping.first_repetition": lambda text, left: None}
    ),
    "without block ends": partial(
        pipeline, changed={"completer.end_of_suggestion": lambda text, place: None}
    ),
    "peers 256/64": partial(peers, above=256, below=64),
    "peers 64/16": partial(peers, above=64, below=16),
}


@dataclass(frozen=True)
class Score:
    """What is wanted of one answer. first_line, whole: 1 if right, else 0."""

    first_line: float
    whole: float
    similarity: float
    tokens: int
    seconds: float


def score(case: Case, measured: dict[str, Any]) -> Score:
    got = [line.rstrip() for line in split_lines(measured["text"].rstrip())]
    wanted = [line.rstrip() for line in case.missing]
    same = difflib.SequenceMatcher(None, got[0], wanted[0], autojunk=False).ratio()
    return Score(got[0] == wanted[0], got == wanted, same, measured["tokens"], measured["seconds"])


@contextmanager
def as_saved(case: Case) -> Iterator[None]:
    """The file on disk without what is missing, so that nothing that reads the package finds the answer."""
    original = case.path.read_bytes()
    case.path.write_bytes("".join(case.lines).encode("utf-8", "replace"))
    try:
        yield
    finally:
        case.path.write_bytes(original)


def ask(engine: Engine, variant: Variant, case: Case) -> dict[str, Any]:
    for _ in engine.generate([engine.eos_ids[0]], SamplingParams(1, mode="plain")):
        pass  # with another prompt's keys and values in its cache, the engine reads ours from the start
    with as_saved(case):
        started = time.perf_counter()
        answer = variant(engine, case)
        seconds = time.perf_counter() - started
    return {"text": answer.text, "tokens": answer.tokens, "seconds": seconds, "missing": case.missing}


def measure(
    engine: Engine, places: Sequence[Case], names: Sequence[str], journal: Journal, made_of: dict[str, Any]
) -> dict[str, list[Score]]:
    """The scores of each variant, in the order of ``places``."""
    scores: dict[str, list[Score]] = {name: [] for name in names}
    for number, case in enumerate(places, 1):
        for name in names:
            settings = {**made_of, "variant": name, **place_of(case)}
            if name.startswith("peers"):
                del settings["server"]  # their way stays as it is when ours changes
            measured = journal.once(settings, partial(ask, engine, VARIANTS[name], case))
            scores[name].append(score(case, measured))
        if number % 10 == 0:
            print(f"{number} of {len(places)} cursors", file=sys.stderr, flush=True)
    return scores


def place_of(case: Case) -> dict[str, Any]:
    document = hashlib.sha256("".join(case.lines).encode("utf-8", "replace")).hexdigest()
    return {"file": case.path.name, "document": document, "cursor": [case.cursor.line, case.cursor.character]}


def source_of(package: Path) -> str:
    """A hash of the package's code: what its suggestions may depend on."""
    files = sorted(package.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def ahead(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The mean difference, and the middle 95 % of it over bootstrap samples of the pairs."""
    differences = np.array(ours, dtype=float) - np.array(theirs, dtype=float)
    drawn = np.random.default_rng(0).integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.percentile(differences[drawn].mean(axis=1), [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def report(places: Sequence[Case], scores: dict[str, list[Score]]) -> None:
    groups = {
        kind: [number for number, case in enumerate(places) if kind in ("all", case.kind)]
        for kind in ("mid-line", "line-start", "all")
    }
    print(f"\n{'':22} {'':11} first line    all  similarity  tokens  median ms")
    for name, all_scores in scores.items():
        for kind, numbers in groups.items():
            some = [all_scores[number] for number in numbers]
            milliseconds = statistics.median(s.seconds for s in some) * 1e3
            print(
                f"{name:22} {kind:11} {_mean(s.first_line for s in some):9.1%} "
                f"{_mean(s.whole for s in some):6.1%} {_mean(s.similarity for s in some):11.3f} "
                f"{_mean(s.tokens for s in some):7.1f} {milliseconds:10.0f}"
            )
    for name in [name for name in scores if name != OURS and OURS in scores]:
        print(f"\n{OURS} ahead of {name}:")
        for kind, numbers in groups.items():
            ours, theirs = ([scores[one][number] for number in numbers] for one in (OURS, name))
            exact = ahead([s.first_line for s in ours], [s.first_line for s in theirs])
            alike = ahead([s.similarity for s in ours], [s.similarity for s in theirs])
            print(
                f"  {kind:11} first line {exact[0]:+.1%} ({exact[1]:+.1%} to {exact[2]:+.1%}), "
                f"similarity {alike[0]:+.3f} ({alike[1]:+.3f} to {alike[2]:+.3f})"
            )


def _mean(values: Iterator[float]) -> float:
    return statistics.fmean(values)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cursors", type=int, default=200)
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="may be repeated (default: all)")
    parser.add_argument("--model", help="a preset, directory or file (default: the default preset)")
    parser.add_argument("--weights", default="auto")
    parser.add_argument("--output", type=Path, help="add each answer to this file; go on from what it has")
    args = parser.parse_args()
    try:
        folder = args.folder.resolve()
        fetch(folder)
        places = cases(folder, args.cursors)
        engine = load(resolve_model(args.model), weights=args.weights, step_times=step_times_path())
        table = general_trigram_path(engine.tokenizer.fingerprint)
        if table.exists():
            engine.use_table(table)
        made_of = {
            "model": engine.name,
            "weights": engine.weights,
            "torch": str(torch.__version__),
            "table": sha256_of(table) if table.exists() else None,
            "server": source_of(Path(lsp_server.__file__).parent),
        }
        print(f"{platform.machine()}, torch {torch.__version__}, {engine.name}, {engine.weights}")
        names = args.variant or list(VARIANTS)
        report(places, measure(engine, places, names, Journal(args.output), made_of))
    except DraftlineError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
