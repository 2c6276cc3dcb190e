"""`model-setup [REPO]`: look at the repository, show the plan, and go through the steps."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.prompt import Confirm

from model_setup import store
from model_setup.corpus import held_out
from model_setup.languages import language
from model_setup.presets import default_preset
from model_setup.progress import console, say
from model_setup.record import Rates, Record
from model_setup.steps import GUESSES, steps
from model_setup.subject import Setup
from model_setup.survey import Survey, survey
from model_setup.walk import describe, plan, walk


def set_up(
    folder: Path,
    budget: float | None = None,
    *,
    ask: bool = False,
    humaneval: bool = False,
    only: Collection[str] = (),
) -> None:
    """Set up the repository that ``folder`` is in, in ``budget`` seconds where the steps can be bounded.

    ask: show the plan and ask before anything is done. humaneval: measure on its prompts as well. only: the
    steps to go through, else all.

    Raises:
        DraftlineError: there is nothing to learn from, or a step cannot be done. What was made before stays.
    """
    if only:
        store.resolve_model()
    with alone_in(folder):
        found = look_at(folder)
        say(f"{found.root}: {found.report}. {found.held_out_files} files are held out, to measure on.")
        record = Record(found.root)
        setup = Setup(found, default_preset(), Rates(GUESSES), record, humaneval, "draft" in only, budget)
        every = [step for step in steps(setup) if not only or step.name in only]
        planned = plan(every, record, budget)
        for line in describe(every, planned, budget):
            say(line)
        if not any(one.reasons for one in planned):
            say("Nothing is left to do.")
        elif ask and not Confirm.ask("Go on?", console=console, default=True):
            say("Nothing was done.")
        else:
            walk(planned, record, budget)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until nobody else changes what was learned in the repository that ``folder`` is in."""
    root = store.repository_root(folder)

    def on_wait() -> None:
        say(f"Another model-setup is at work on {root}; waiting for it.")

    with store.only_one(store.repository_key(root), on_wait):
        yield


def look_at(folder: Path) -> Survey:
    """`survey`, shown."""
    with console.status("Reading the files") as status:
        return survey(folder, lambda files: status.update(f"Reading the files: {files:,}"))


def list_files(folder: Path) -> None:
    """Print every file that would be learned from or is left out, and why."""
    found, out = look_at(folder), sys.stdout
    for path, characters in found.paths.items():
        notes = [language(path) or "other", f"{characters:,} characters"]
        if held_out(path):
            notes.append("held out")
        if dropped := found.report.secrets.get(path.as_posix()):
            notes.append(f"without {dropped} lines that look like secrets")
        out.write(f"in   {_printable(path.as_posix())}: {', '.join(notes)}\n")
    for reason, paths in sorted(found.report.left_out.items()):
        out.writelines(f"out  {_printable(path)}: {reason}\n" for path in paths)
    say(f"{found.root}: {found.report}.")


def _printable(path: str) -> str:
    """File names may hold any bytes, line ends and terminals' commands among them."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in path)
