"""Going through the steps of setting up: what is to be done, how long it may take, and doing it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_setup.progress import duration, say
from model_setup.record import NEVER_DONE, Record


@dataclass(frozen=True)
class Made:
    """What a step made: files and model directories, and what to say of it."""

    outputs: tuple[Path, ...]
    said: str


@dataclass(frozen=True)
class Step:
    """One step of setting up a repository.

    name: its subcommand's. what: what it does, for people. input: what its result depends on, by name, as
    hashes; asked when it is the step's turn. run: given the seconds that it may take, does it; None if they
    were too few for anything.

    seconds: what it takes by estimate, or what it would use if it fills the time it is given. fills: whether
    it does that, from ``least`` seconds on; ``most`` is what it can make use of. after: the steps whose
    results are part of its input. already: whether it is done, whoever did it. why_not: if it will not be
    done here, why.
    """

    name: str
    what: str
    input: Callable[[], dict[str, str]]
    run: Callable[[float], Made | None]
    seconds: float
    fills: bool = False
    least: float = 0.0
    most: float = 0.0
    after: tuple[str, ...] = ()
    already: Callable[[], bool] = lambda: False
    why_not: str = ""


@dataclass(frozen=True)
class Planned:
    """asked: the step's share of the budget, 0 if it does not fill its time. reasons: why it is to be done;
    none if it need not be."""

    step: Step
    asked: float
    reasons: tuple[str, ...]

    @property
    def seconds(self) -> float:
        return self.asked if self.step.fills else self.step.seconds


def plan(steps: Sequence[Step], record: Record, budget: float | None) -> list[Planned]:
    """What is to be done of ``steps``, in ``budget`` seconds if that is given.

    The shares are those of a first run, whatever is done already: so the same budget asks the same again, and
    nothing is done twice.
    """
    possible = [step for step in steps if not step.why_not]
    asked = shares(possible, budget)
    planned: list[Planned] = []
    for step in possible:
        again = {one.step.name for one in planned if one.reasons}
        reasons = [f"after {name}" for name in step.after if name in again]
        if not _is_done(step, record, step.input(), asked[step.name]):
            reasons = record.changes(step.name, step.input()) or ["there is more time than last time"]
        planned.append(Planned(step, asked[step.name], tuple(reasons)))
    return planned


def _is_done(step: Step, record: Record, current: dict[str, str], asked: float) -> bool:
    return step.already() or record.is_done(step.name, current, asked)


def shares(steps: Sequence[Step], budget: float | None) -> dict[str, float]:
    """The seconds that each step may take, 0 for those that take what they need.

    Without a budget what each would like; else what the others leave, in proportion, up to what each can use.
    """
    wants = {step.name: step for step in steps if step.fills}
    given = {step.name: 0.0 for step in steps}
    if budget is None:
        return given | {name: step.seconds for name, step in wants.items()}
    left = max(budget - sum(step.seconds for step in steps if not step.fills), 0.0)
    while wants:
        scale = left / sum(step.seconds for step in wants.values())
        full = [step for step in wants.values() if step.seconds * scale > step.most]
        for step in full or list(wants.values()):
            given[step.name] = step.most if full else step.seconds * scale
            left -= given[step.name]
            del wants[step.name]
    return given


def describe(steps: Sequence[Step], planned: Sequence[Planned], budget: float | None) -> list[str]:
    """The plan, a line for each step and one for the whole."""
    by_name = {one.step.name: one for one in planned}
    lines = []
    for step in steps:
        one = by_name.get(step.name)
        if one is None:
            lines.append(f"  {step.name:<10} not here: {step.why_not}")
        elif one.reasons:
            why = f" ({', '.join(one.reasons)})" if one.reasons != (NEVER_DONE,) else ""
            lines.append(f"  {step.name:<10} {step.what}: about {duration(one.seconds)}{why}")
        else:
            lines.append(f"  {step.name:<10} {step.what}: done, nothing has changed")
    total = sum(one.seconds for one in planned if one.reasons)
    if total:
        bound = "" if budget is None else f", of the {duration(budget)} that you gave"
        lines.append(f"In all about {duration(total)}{bound}. These are estimates.")
        if budget is not None and total > budget * 1.01:
            lines.append("That is more than you gave: what the others need is not bounded.")
    return lines


def walk(planned: Sequence[Planned], record: Record, budget: float | None) -> None:
    """Do what is to be done; each step is noted as soon as it has ended.

    Raises:
        DraftlineError: a step cannot be done; what those before it made stays, and is not done again.
    """
    began = time.monotonic()
    for position, one in enumerate(planned):
        step = one.step
        current = step.input()
        if _is_done(step, record, current, one.asked):
            continue
        seconds = one.asked
        if budget is not None and step.fills:
            left = budget - (time.monotonic() - began)
            remaining = [later.step for later in planned[position:] if later.reasons or later is one]
            seconds = shares(remaining, left)[step.name]
            if seconds < min(step.least, step.most):
                say(f"{step.name}: left out, for it needs {duration(step.least)} and the time is used up.")
                continue
        started = time.monotonic()
        made = step.run(seconds)
        if made is None:
            say(f"{step.name}: nothing came of it this time; the next run tries again.")
            continue
        took = time.monotonic() - started
        record.note(step.name, current, seconds, took, made.outputs, made.said)
        say(f"{step.name}: {made.said}")
