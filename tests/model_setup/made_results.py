"""Results as a benchmark makes them, from numbers that can be reckoned by hand."""

from __future__ import annotations

from engine.request import Cycle, Spent
from engine.trace import Trace
from model_setup.benchmark import SAMPLINGS
from model_setup.contest import modes
from model_setup.results import Measured, Outcome, Results, Setting

FACTS = {
    "repository": "shop",
    "model": "tiny",
    "weights": "int8",
    "device": "cpu",
    "draft": "trained for this repository",
    "table": "counted in this repository",
    "tokens": 64,
    "least_tokens": 8,
    "processor": "A processor",
    "cores": 4,
    "threads": 2,
    "system": "Linux 6",
    "python": "3.11.7",
    "torch": "2.13.0",
    "draftline": "0.1.0",
    "date": "2026-11-29T22:55+00:00",
    "held_out_files": 3,
    "cursors": 40,
    "passed_over": 1,
    "wanted": 20,
    "seconds": 75.0,
}


def plain(tokens: int = 8, seconds: float = 0.1) -> Outcome:
    """``seconds`` and 1000 bytes a token."""
    trace = Trace()
    for _ in range(tokens):
        spent = {"oracle": Spent(1, 1, 1000, 2000, seconds)}
        trace.add(Cycle([7], ["oracle"], 1, seconds, [frozenset()], 1.0, spent))
    return Outcome(trace, tokens * seconds, tokens * seconds, True, [("x", "oracle")] * tokens)


def guessed(cycles: int = 4, seconds: float = 0.125, text: str = "y") -> Outcome:
    """Two tokens a cycle, the first draft2's; two guesses were checked, and 1.5 tokens promised."""
    trace = Trace()
    for _ in range(cycles):
        spent = {
            "draft2": Spent(1, 2, 0, 0, 0.01),
            "draft": Spent(1, 2, 100, 10, 0.02),
            "oracle": Spent(1, 3, 1100, 6000, 0.08),
        }
        tried = [frozenset({"draft2", "draft"}), frozenset()]
        trace.add(Cycle([7, 8], ["draft2", "oracle"], 3, seconds, tried, 1.5, spent))
    return Outcome(
        trace, cycles * 0.12, cycles * 1.5 * 0.1, True, [(text, "draft2"), ("z", "oracle")] * cycles
    )


def results(
    prompts: int = 3, text: str = "y", name: str = "m.py:9", has_draft: bool = True, **facts
) -> Results:
    """Guessing takes 62.5 ms a token where plain takes 100, for each prompt alike."""
    settings = [
        Setting(sampling, "" if mode == "plain" else phase, mode)
        for sampling in SAMPLINGS
        for phase, draft in (("before", False), ("after", has_draft))
        for mode in modes(draft)
    ]
    settings = list(dict.fromkeys(settings))
    outcomes = [plain() if one.name == "plain" else guessed(text=text) for one in settings]
    measured = [
        Measured(f"{name}{number}", kind, 500, 2.0, 2.5, 0.1, f"above {text}\n", f"below {text}", outcomes)
        for kind in ("repository", "HumanEval")
        for number in range(prompts)
    ]
    facts = {**FACTS, **({} if has_draft else {"draft": None}), **facts}
    return Results(facts, {1: 0.1, 8: 0.12}, settings, measured, {"counting": 11.9})
