"""The steps of `model-setup`, in their order: this list is what the command does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model_setup import store
from model_setup.measuring_steps import benchmark_step, report_step
from model_setup.progress import count_progress, fraction_progress
from model_setup.subject import Setup
from model_setup.walk import Made, Step

if TYPE_CHECKING:  # brings in torch
    from model_setup.draft_plan import DraftPlan

FETCH, COUNT, WRITE = "fetched bytes", "counted characters", "written tokens"
# A second, until this machine has done it itself. Fetching and counting: round guesses. Writing: one of two
# cores of a busy AMD EPYC (Zen 4), with Qwen2.5-Coder-0.5B in int8.
GUESSES = {FETCH: 10e6, COUNT: 1e6, WRITE: 37}
CHARACTERS_PER_TOKEN = 3  # at least, in code
WRITING_SECONDS = 60.0
MOST_WRITTEN = 120_000_000  # tokens, as many as the paper's
LEAST_WRITTEN = 100_000  # 20,486 gained nothing, see `model_setup.trigram`; more was not tried
COUNTING_SECONDS = 3.0  # of counting, however little there is to count


def steps(setup: Setup) -> list[Step]:
    draft = draft_step(setup)
    return [
        fetch_step(setup),
        draft,
        generate_step(setup, with_draft=draft.fills and not draft.why_not),
        trigram_step(setup),
        benchmark_step(setup),
        report_step(setup),
    ]


def fetch_step(setup: Setup) -> Step:
    preset = setup.preset

    def run(_seconds: float) -> Made:
        from model_setup.fetch import fetch_model

        began = time.monotonic()
        model = fetch_model(preset)
        setup.rates.note(FETCH, preset.gguf_size, time.monotonic() - began)
        return Made((model,), f"{preset.name} is installed")

    return Step(
        "fetch",
        f"bring the model {preset.name}, {preset.gguf_size / 1e6:.0f} MB",
        input=lambda: {"its pinned hash": preset.sha256},
        run=run,
        seconds=preset.gguf_size / setup.rates[FETCH],
        already=lambda: store.installed_model(preset.name) is not None,
    )


def draft_step(setup: Setup) -> Step:
    """Before the model is there nobody knows what draft it could have: that is looked into after fetching."""
    planned = draft_plan(setup.model) if setup.fetched else None

    def run(seconds: float) -> Made:
        from model_setup.draft import make_draft  # brings in torch

        known = planned or draft_plan(setup.model)
        if not (known.pays or setup.draft_at_any_price):
            return Made((), f"not made, for {known.why}")
        directory = store.draft_directory(setup.survey.root, setup.preset.name)
        with fraction_progress() as progress:
            report = make_draft(setup.survey.root, setup.model, directory, seconds or known.seconds, progress)
        outcome = (
            "the older one foretells better, and stays" if report.outcome == "older is better" else "made"
        )
        return Made((directory,), f"{outcome}; {report.before}, now {report.after}")

    step = Step(
        "draft",
        "train a draft, if that pays here",
        input=lambda: {
            "the code": setup.survey.learned,
            "the held-out code": setup.survey.held_out,
            "the model": setup.model_hash,
        },
        run=run,
        seconds=1,
        after=("fetch",),
    )
    if planned is None:
        return step
    return replace(
        step,
        what=f"train a draft of {planned.parameters / 1e6:.0f}M parameters",
        seconds=planned.seconds,
        fills=True,
        least=60,
        most=10 * planned.seconds,
        why_not="" if planned.pays or setup.draft_at_any_price else planned.why,
    )


def draft_plan(oracle: Path) -> DraftPlan:
    from model_setup.draft_plan import draft_plan  # brings in torch

    return draft_plan(oracle)


def generate_step(setup: Setup, with_draft: bool) -> Step:
    """with_draft: whether there will be one to write."""

    def run(seconds: float) -> Made | None:
        from model_setup.repository import generate_text  # brings in torch

        with count_progress("Writing", "tokens") as update:
            expected = round(seconds * setup.rates[WRITE])
            first = began = 0.0

            def on_progress(done: int) -> None:
                nonlocal first, began
                if not first:  # from here on, for loading the model took a while
                    first, began = done, time.monotonic()
                update(done, max(expected, done))

            done = generate_text(
                setup.survey.root, setup.tokenizer, setup.author, MOST_WRITTEN, seconds, on_progress
            )
        if done == 0:
            return None
        if first:
            setup.rates.note(WRITE, done - first, time.monotonic() - began)
        return Made((setup.written,), f"{done:,} tokens that {setup.author.name} wrote")

    return Step(
        "generate",
        f"let the model write text to count, about {setup.rates[WRITE]:,.0f} tokens a second",
        input=lambda: {"the model": setup.written.name if setup.fetched else ""},
        run=run,
        seconds=WRITING_SECONDS,
        fills=True,
        least=20,
        most=MOST_WRITTEN / setup.rates[WRITE],
        after=("fetch", "draft"),
        why_not="" if with_draft else _why_not_write(setup),
    )


def _why_not_write(setup: Setup) -> str:
    """Why the model itself, without a draft, had better write nothing."""
    from engine.placement import placements  # brings in torch

    rate = setup.rates[WRITE]
    written = rate * (setup.budget or WRITING_SECONDS)
    if setup.draft is not None or placements("auto", "auto")[0].device != "cpu" or written >= LEAST_WRITTEN:
        return ""
    return (
        f"without a draft about {rate:,.0f} tokens a second can be written, and 20,000 gained nothing where "
        "that was measured"
    )


def trigram_step(setup: Setup) -> Step:
    def characters() -> int:
        from model_setup.general_code import CHARACTERS

        missing = not (setup.fetched and setup.general.exists())
        return setup.survey.learned_characters + (CHARACTERS if missing else 0)

    def run(_seconds: float) -> Made:
        from model_setup.trigram import build_repository_trigram

        size, began = characters(), time.monotonic()
        with _bars({"repository": setup.survey.learned_characters, "general code": size}) as progress:
            report = build_repository_trigram(
                setup.survey.root, setup.tokenizer, setup.table, setup.general, progress, setup.written
            )
        if size > 2e6:  # else it took COUNTING_SECONDS
            setup.rates.note(COUNT, size, time.monotonic() - began)
        return Made(
            (setup.table,),
            f"{report.tokens:,} tokens of the repository, {report.written_tokens:,} written by the model and "
            f"{report.general_tokens:,} of code in general, {report.bytes / 1e6:.0f} MB",
        )

    def current() -> dict[str, str]:
        if not setup.fetched:
            return {"the model": ""}
        written = setup.written
        return {
            "the code": setup.survey.learned,
            "the model": setup.tokenizer.fingerprint,
            "the text that the model wrote": f"{written.name} {written.stat().st_size}"
            if written.exists()
            else "",
        }

    return Step(
        "trigram",
        "count the repository's trigrams",
        input=current,
        run=run,
        seconds=COUNTING_SECONDS + characters() / setup.rates[COUNT],
        after=("fetch", "generate"),
    )


@contextmanager
def _bars(characters: dict[str, int]) -> Iterator[Callable[[str, int], None]]:
    """A bar for each part of the work, one after the other; the sizes in tokens are guesses."""
    with ExitStack() as shown:
        updates = {}

        def progress(what: str, done: int) -> None:
            if what not in updates:
                shown.close()
                updates[what] = shown.enter_context(count_progress(f"Counting {what}", "tokens"))
            updates[what](done, max(characters.get(what, 0) // CHARACTERS_PER_TOKEN, done))

        yield progress
