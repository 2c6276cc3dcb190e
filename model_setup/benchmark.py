"""How fast completions are in a repository: the modes against each other, before and after personalising.

Every setting decodes the same prompts. Within a prompt the settings take turns, each prompt beginning with
another, so that whatever else the machine does slows all of them alike; the prompt is read before, so that
only decoding is timed. Each setting has stages of its own, which learn from prompt to prompt as the server's
do. A prompt is measured with all settings or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from engine.engine import Engine, load
from engine.errors import DraftlineError
from engine.request import SamplingParams
from engine.step_times import processor
from model_setup import store
from model_setup.benchmark_prompts import Prompt, held_out_places, humaneval_prompts, place_prompt
from model_setup.command_line import draftline_version
from model_setup.contest import Contest, decode, modes
from model_setup.corpus import CorpusReport, held_out, read_sources
from model_setup.journal import Journal
from model_setup.results import FORMAT, Kind, Measured, Phase, Results, Setting

TOKENS = 64  # as many as the language server asks for
LEAST_TOKENS = 8  # where the model writes fewer, a rate would be the clock's
SAMPLINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "top-k 50": {"temperature": 1.0, "top_k": 50},
}

Progress = Callable[[int, int], None]
"""Called with how many prompts were measured, and how many are wanted."""


def measure(
    repository: Path,
    oracle: Path,
    *,
    general: Path,
    table: Path | None = None,
    draft: Path | None = None,
    journal: Path | None = None,
    seconds: float = 600.0,
    prompts: int = 20,
    tokens: int = TOKENS,
    humaneval: bool = False,
    costs: Mapping[str, float] | None = None,
    device: str = "auto",
    weights: str = "auto",
    progress: Progress | None = None,
) -> Results:
    """Decode at held-out cursors of ``repository`` with every setting, greedily and with top-k 50 at 1.

    oracle, draft: model directories. general: the table of code in general, which is all that guesses before
    personalising. table, draft: what was made for the repository; without both, nothing is measured after.
    journal: a file to which each prompt is added as soon as it was measured, and from which it is taken the
    next time if nothing changed that it depends on. seconds: begin no prompt that would end later, but
    measure at least one of each kind; what the journal has costs nothing. prompts: so many cursors at most.
    tokens: written at most for each. humaneval: measure HumanEval's 164 prompts too, in turn with the
    cursors. costs: what setting up took, part -> seconds. device, weights: as for `engine.load`.

    Raises:
        DraftlineError: no file of the repository is held out or none has a line worth completing, HumanEval
            is wanted and not installed, or a model or table cannot be used.
    """
    began = time.monotonic()
    root = store.repository_root(repository)
    sources = [source for source in read_sources(root, CorpusReport()) if held_out(source.path)]
    places = held_out_places(sources)
    if not places:
        raise DraftlineError(
            f"{root} has nothing to benchmark on: the tenth of its files that is held out of learning has no "
            "code; try a larger repository."
        )
    engine = load(oracle, draft=draft, device=device, weights=weights, step_times=store.step_times_path())
    engine.settle()
    contest = _contest(engine, tokens, general, table, draft is not None)
    tokenizer = engine.tokenizer
    room = engine.max_context - tokens
    cursors = (place_prompt(place, tokenizer, room) for place in places)
    supplies: dict[Kind, Iterator[Prompt]] = {"repository": cursors}
    wanted: dict[Kind, int] = {"repository": prompts}
    if humaneval:
        problems = [prompt for prompt in humaneval_prompts(tokenizer) if len(prompt.ids) <= room]
        supplies["HumanEval"], wanted["HumanEval"] = iter(problems), len(problems)
    facts = {
        "repository": root.name,
        "model": engine.name,
        "weights": engine.weights,
        "device": engine.device,
        "draft": None if draft is None else "trained for this repository",
        "table": None if table is None else "counted in this repository, on code in general",
        "tokens": tokens,
        "least_tokens": LEAST_TOKENS,
        **_machine(),
    }
    made_of = {
        **facts,
        "format": FORMAT,
        "settings": [asdict(setting) for setting in contest.settings],
        "files": {
            name: _fingerprint(path)
            for name, path in (("oracle", oracle), ("draft", draft), ("general", general), ("table", table))
            if path is not None
        },
    }
    run = _Run(engine, contest, Journal(_with_folder(journal)), made_of, began + seconds)
    measured = run.all(supplies, wanted, progress)
    if not measured:
        raise DraftlineError(
            f"{engine.name} writes fewer than {LEAST_TOKENS} tokens wherever it was tried in {root}: give it "
            "more time or a larger repository."
        )
    facts |= {
        "date": datetime.now(timezone.utc).isoformat(timespec="minutes"),
        "held_out_files": len(sources),
        "cursors": len(places),
        "passed_over": run.passed_over,
        "wanted": sum(wanted.values()),
        "seconds": time.monotonic() - began,
    }
    times = engine.step_times
    step_times = dict(zip(times.rows, times.seconds, strict=True))
    return Results(facts, step_times, contest.settings, measured, dict(costs or {}))


def _contest(engine: Engine, tokens: int, general: Path, table: Path | None, has_draft: bool) -> Contest:
    settings: dict[Setting, tuple[Engine, SamplingParams]] = {}
    phases: list[tuple[Phase, bool, Path]] = [("before", False, general)]
    if table is not None or has_draft:
        phases.append(("after", has_draft, table or general))
    for sampling, drawn in SAMPLINGS.items():
        common: dict[str, Any] = {"max_tokens": tokens, "stop_ids": _stop_ids(engine), **drawn}
        for phase, with_draft, path in phases:
            for name, params in modes(with_draft).items():
                setting = Setting(sampling, "" if name == "plain" else phase, name)
                if setting not in settings:
                    settings[setting] = (engine.with_table(path), replace(params, **common))
    return Contest(settings)


def _stop_ids(engine: Engine) -> tuple[int, ...]:
    """As in the language server: no control token belongs in a suggestion."""
    return (*engine.eos_ids, *engine.tokenizer.special.values())


class _Run:
    """One run of the benchmark: prompts as time allows. passed_over: where too little was written."""

    def __init__(
        self, engine: Engine, contest: Contest, journal: Journal, made_of: Mapping[str, Any], end: float
    ) -> None:
        self._engine = engine
        self._contest = contest
        self._journal = journal
        self._made_of = made_of
        self._end = end
        self._longest = 0.0
        self.passed_over = 0

    def all(
        self,
        supplies: Mapping[Kind, Iterator[Prompt]],
        wanted: Mapping[Kind, int],
        progress: Progress | None,
    ) -> list[Measured]:
        """By turns one prompt of each kind."""
        measured: list[Measured] = []
        open_kinds = list(supplies)
        while open_kinds:
            for kind in tuple(open_kinds):
                done = sum(one.kind == kind for one in measured)
                one = self._next(kind, supplies[kind], done) if done < wanted[kind] else None
                if one is None:
                    open_kinds.remove(kind)
                    continue
                measured.append(one)
                if progress is not None:
                    progress(len(measured), sum(wanted.values()))
        return measured

    def _next(self, kind: Kind, supply: Iterator[Prompt], done: int) -> Measured | None:
        """The next prompt at which enough is written; None: there is no more, or no time."""
        for prompt in supply:
            ids = hashlib.sha256(json.dumps(prompt.ids).encode()).hexdigest()
            settings = {**self._made_of, "prompt": prompt.name, "ids": ids}
            late = time.monotonic() + self._longest > self._end
            if late and settings not in self._journal and (done or self.passed_over):
                return None
            stored = self._journal.once(settings, partial(self._measured, kind, prompt, done))
            if stored:
                return Measured.from_json(stored)
            self.passed_over += 1
        return None

    def _measured(self, kind: Kind, prompt: Prompt, done: int) -> dict[str, Any]:
        """Nothing where too little is written."""
        began, busy = time.monotonic(), _busy_seconds()
        engine = self._engine
        plain = SamplingParams(LEAST_TOKENS, mode="plain", stop_ids=_stop_ids(engine))
        first_plain = _first_token(engine, prompt, plain)
        for drawn in SAMPLINGS.values():
            tokens, _ = decode(engine, prompt, replace(plain, **drawn))
            if len(tokens) < LEAST_TOKENS:
                return {}
        first_guessing = _first_token(engine, prompt, replace(plain, mode="staged"))
        outcomes = self._contest.decode(prompt, done)
        took = time.monotonic() - began
        self._longest = max(self._longest, took)
        others = max(0.0, (_busy_seconds() - busy) / took)
        return Measured(
            prompt.name,
            kind,
            len(prompt.ids),
            first_plain,
            first_guessing,
            others,
            prompt.above,
            prompt.below,
            outcomes,
        ).to_json()


def _first_token(engine: Engine, prompt: Prompt, params: SamplingParams) -> float:
    """Seconds to the first token of a prompt that no model has read yet."""
    list(engine.generate(prompt.ids[-1:], SamplingParams(1)))  # makes them forget what they read
    started = time.perf_counter()
    next(engine.generate(prompt.ids, params, context_ids=prompt.context))
    return time.perf_counter() - started


def _busy_seconds() -> float:
    """Processor time that all programs but this one have used since the machine started."""
    all_of_them = psutil.cpu_times()
    idle = all_of_them.idle + getattr(all_of_them, "iowait", 0.0)
    # on Linux a guest's time is part of the user's
    counted = sum(all_of_them) - getattr(all_of_them, "guest", 0.0) - getattr(all_of_them, "guest_nice", 0.0)
    ours = psutil.Process().cpu_times()
    return float(counted - idle - ours.user - ours.system)


def _machine() -> dict[str, Any]:
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "draftline": draftline_version(),
    }


def _fingerprint(path: Path) -> str:
    """Changes with the content of a file, or of the files in a folder."""
    if path.is_file():
        return store.sha256_of(path)
    manifest = path / store.MANIFEST
    files = [manifest] if manifest.exists() else sorted(file for file in path.iterdir() if file.is_file())
    hashes = [[file.name, store.sha256_of(file)] for file in files]
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def _with_folder(path: Path | None) -> Path | None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    return path
