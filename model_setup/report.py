"""The benchmark's report: a page that stands alone, and the same as JSON beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from model_setup import report_words as words
from model_setup.charts import Bar, bars, sorted_bars, stacked
from model_setup.report_words import setting_name, times
from model_setup.results import STAGES, Figures, Kind, Results, Setting
from model_setup.store import write_json, write_text

PAGE, DATA = "report.html", "report.json"
_MARKS = {"draft2": "d2", "draft": "d1", "oracle": "o"}
_SPEED = ("Setting", "min tok/s", "median", "max", "all", "× plain", "predicted", "tokens a cycle",
          "promised", "texts differ")  # fmt: skip
_GUESSES = ("Setting", "alpha draft2", "alpha draft", "c draft2", "c draft", "guesses", "theorem 3.8",
            "bytes / plain", "% draft2", "% draft", "% oracle")  # fmt: skip


def write_report(results: Results, directory: Path) -> Path:
    """Write ``report.html`` and ``report.json`` into ``directory`` and return the page's path.

    The page needs nothing else: it opens offline, in light and dark, on paper and on a phone. All text of the
    repository is escaped. What was there is replaced at once.
    """
    write_json(directory / DATA, results.to_json())
    write_text(directory / PAGE, page(results))
    return directory / PAGE


def page(results: Results) -> str:
    """The report as HTML."""
    template = resources.files("model_setup").joinpath("report_page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(template).render(_content(results))


def _content(results: Results) -> dict[str, Any]:
    personalised = "after" in results.phases
    stages = {
        "draft2": "draft2: trigram table and lookup",
        "draft": "draft: the small model",
        "oracle": "oracle: its own",
    }
    has_draft = bool(results.facts["draft"])
    if not has_draft:
        del stages["draft"]
    return {
        "facts": results.facts,
        "lede": words.lede(results),
        "headline": _headline(results),
        "machine": words.machine(results),
        "caution": words.cautions(results),
        "personalised": words.guessers(results, "after") if personalised else "",
        "has_draft": has_draft,
        "stages": list(stages.items()),
        "parts": [_part(results, kind) for kind in results.kinds],
        "first_token": words.first_token(results),
        "costs": [(name, words.duration(seconds)) for name, seconds in results.costs.items()],
        "paid": words.paid(results),
        "method": words.method(results),
        "words": words.WORDS,
        "data_name": DATA,
    }


def _headline(results: Results) -> list[tuple[str, str]]:
    """Four numbers; the last two do not depend on a clock."""
    kind = results.kinds[0]
    found = []
    for sampling in results.samplings:
        *before, last = (results.figures(kind, results.usual(phase, sampling)) for phase in results.phases)
        then = f"; before personalising {times(before[0].ratio)}" if before else ""
        found.append((times(last.ratio), f"as fast as plain decoding, {sampling}{then}"))
    first = results.samplings[0]
    usual = results.figures(kind, results.usual(results.phases[-1], first))
    found.append((f"{usual.trace.tokens_per_cycle:.2f}", f"tokens a pass of the model, {first}"))
    found.append((f"{sum(usual.bytes.values()):.2f}", f"of plain's bytes read a token, {first}"))
    return found


def _part(results: Results, kind: Kind) -> dict[str, Any]:
    every = [results.figures(kind, setting) for setting in results.settings]
    tables = [
        _table("Speed", words.SPEED_TABLE, _SPEED, results, every, _speed_cells),
        _table("Guesses and memory", words.GUESSES_TABLE, _GUESSES, results, every, _guess_cells),
    ]
    if results.facts["draft"]:
        tables.insert(1, _stages_table(results, kind))
    text, index = words.example(results, kind)
    prompt = results.of(kind)[index]
    shown = results.figures(kind, results.usual(results.phases[-1], "greedy")).outcomes[index]
    mixed = [(_long_name(each.setting), each) for each in every if _is_shown(results, each.setting)]
    return {
        "title": words.title(results, kind),
        "opening": words.opening(results, kind),
        "speed": [(sampling, _speed_chart(results, every, sampling)) for sampling in results.samplings],
        "spread": [(sampling, _spread_chart(results, kind, sampling)) for sampling in results.samplings],
        "tables": tables,
        "origins": stacked(
            "Share of the tokens by who first proposed them",
            [(name, each.shares) for name, each in mixed],
            lambda parts: f"{1 - parts['oracle']:.0%} guessed",
        ),
        "bytes": stacked(
            "Bytes read for a token over plain decoding's",
            [(name, each.bytes) for name, each in mixed],
            lambda parts: f"{sum(parts.values()):.2f}",
        ),
        "example": {
            "text": text,
            "above": prompt.above,
            "below": prompt.below,
            "pieces": [(piece, _MARKS[origin], origin) for piece, origin in shown.pieces],
        },
    }


def _is_shown(results: Results, setting: Setting) -> bool:
    """Plain, the standard ones and the server's own: enough for the mix."""
    if setting.phase not in ("", results.phases[-1]):
        return setting == results.usual(setting.phase, setting.sampling)
    return setting.name.startswith(("plain", "standard")) or setting == results.usual(
        results.phases[-1], setting.sampling
    )


def _long_name(setting: Setting) -> str:
    parts = [setting_name(setting.name), setting.sampling, setting.phase]
    return ", ".join(part for part in parts if part)


def _speed_chart(results: Results, every: Iterable[Figures], sampling: str) -> str:
    personalised = len(results.phases) > 1
    rows = [
        Bar(
            f"{setting_name(each.setting.name)}, {each.setting.phase}"
            if personalised
            else setting_name(each.setting.name),
            each.ratio,
            each.predicted,
            quiet=personalised and each.setting.phase == "before",
        )
        for each in every
        if each.setting.sampling == sampling and each.setting.phase
    ]
    return bars(f"Times plain decoding by setting, {sampling}", rows)


def _spread_chart(results: Results, kind: Kind, sampling: str) -> str:
    *before, last = (results.figures(kind, results.usual(phase, sampling)) for phase in results.phases)
    title = f"Times plain decoding by prompt, {sampling}, in rising order"
    return sorted_bars(title, last.ratios, before[0].ratios if before else ())


def _table(
    title: str,
    text: str,
    columns: tuple[str, ...],
    results: Results,
    every: Iterable[Figures],
    cells: Callable[[Figures], list[str]],
) -> dict[str, Any]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in every:
        setting = each.setting
        usual = bool(setting.phase) and setting == results.usual(setting.phase, setting.sampling)
        row = {"name": setting_name(setting.name), "cells": cells(each), "usual": usual}
        group = f"{setting.sampling}, {words.PHASES[setting.phase]}"
        groups.setdefault(group[:1].upper() + group[1:], []).append(row)
    return {"title": title, "text": text, "columns": columns, "groups": list(groups.items())}


def _speed_cells(figures: Figures) -> list[str]:
    rates, trace = figures.rates, figures.trace
    return [
        *(f"{rate:.1f}" for rate in (rates.low, rates.middle, rates.high, figures.rate)),
        *(f"{value:.2f}" for value in (figures.ratio, figures.predicted)),
        *(f"{value:.2f}" for value in (trace.tokens_per_cycle, trace.expected_per_cycle)),
        f"{figures.differing} of {len(figures.outcomes)}",
    ]


def _guess_cells(figures: Figures) -> list[str]:
    trace = figures.trace
    guessing = STAGES[:2]
    return [
        *(f"{trace.alpha(stage):.2f}" if stage in trace.spent else "–" for stage in guessing),
        *(f"{trace.c(stage):.2g}" if stage in trace.spent else "–" for stage in guessing),
        f"{(trace.rows - trace.cycles) / trace.cycles:.1f}",
        f"{figures.theorem:.2f}" if figures.setting.name.startswith("standard") else "–",
        f"{sum(figures.bytes.values()):.2f}",
        *(f"{100 * figures.shares[stage]:.0f}" for stage in STAGES),
    ]


def _stages_table(results: Results, kind: Kind) -> dict[str, Any]:
    stages = ("draft2", "draft", "draft + draft2")

    def cells(shape: str) -> list[str]:
        settings = [
            Setting(sampling, "after", f"{shape}, {stage}")
            for sampling in results.samplings
            for stage in stages
        ]
        return [times(results.figures(kind, setting).ratio) for setting in settings]

    columns = ["Shape", *(f"{sampling}: {stage}" for sampling in results.samplings for stage in stages)]
    rows = [{"name": shape, "cells": cells(shape), "usual": False} for shape in ("chain", "tree")]
    return {
        "title": "Tree or chain, one stage or two",
        "text": words.STAGES_TABLE,
        "columns": columns,
        "groups": [("", rows)],
    }
