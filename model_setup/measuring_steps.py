"""The last steps of `model-setup`: measure what was learned, and say what came of it."""

from __future__ import annotations

from pathlib import Path

from model_setup import store
from model_setup.progress import console, count_progress
from model_setup.subject import Setup, hash_of
from model_setup.walk import Made, Step

MEASURING_SECONDS, MOST_MEASURING = 240.0, 900.0


def benchmark_step(setup: Setup) -> Step:
    folder = store.report_directory(setup.survey.root)

    def run(seconds: float) -> Made:
        from model_setup.benchmark import measure  # brings in torch
        from model_setup.report import DATA

        parts = {name: setup.record[name] for name in ("draft", "generate", "trigram")}
        with count_progress("Measuring", "cursors") as update:
            results = measure(
                setup.survey.root,
                setup.model,
                general=setup.general,
                table=setup.table,
                draft=setup.draft,
                journal=folder / "journal.jsonl",
                seconds=seconds,
                humaneval=setup.humaneval,
                costs={name: done.took for name, done in parts.items() if done is not None},
                progress=update,
            )
        store.write_json(folder / DATA, results.to_json())
        return Made((folder / DATA,), f"measured at {len(results.prompts)} places, before and after")

    def current() -> dict[str, str]:
        if not setup.fetched:
            return {"the model": ""}
        draft, table = setup.draft, setup.table
        return {
            "the held-out code": setup.survey.held_out,
            "the model": setup.model_hash,
            "the draft": hash_of(draft / store.MANIFEST) if draft else "",
            "the table": hash_of(table),
            "the prompts": "with HumanEval" if setup.humaneval else "",
        }

    return Step(
        "benchmark",
        "measure completions at held-out places, with and without what was learned",
        input=current,
        run=run,
        seconds=MEASURING_SECONDS,
        fills=True,
        least=60,
        most=MOST_MEASURING,
        after=("fetch", "draft", "trigram"),
        why_not=""
        if setup.survey.held_out_files
        else "none of the files is among the tenth that is held out",
    )


def report_step(setup: Setup) -> Step:
    folder = store.report_directory(setup.survey.root)

    def run(_seconds: float) -> Made | None:
        if not (folder / "report.json").exists():
            return None
        page = show_report(folder)
        return Made((page,), str(page))

    return Step(
        "report",
        "write what was measured on a page",
        input=lambda: {"what was measured": hash_of(folder / "report.json")},
        run=run,
        seconds=1,
        after=("benchmark",),
        why_not="" if setup.survey.held_out_files else "nothing is measured",
    )


def show_report(folder: Path) -> Path:
    """Write the page of what was measured, and its summary on the terminal.

    Raises:
        DraftlineError: nothing was measured yet.
    """
    from model_setup.report import DATA, write_report
    from model_setup.results import read_results
    from model_setup.summary import summary

    results = read_results(folder / DATA)
    summary(results, console)
    return write_report(results, folder)
