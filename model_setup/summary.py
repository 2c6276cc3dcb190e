"""The benchmark's summary on the terminal."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from model_setup import report_words as words
from model_setup.report_words import setting_name
from model_setup.results import Kind, Results


def summary(results: Results, console: Console) -> None:
    """Print what matters most: every setting's speed beside plain's, and when setting up has paid."""
    caution = words.cautions(results)
    tables = [_table(results, kind) for kind in results.kinds]
    parts: list[RenderableType] = [Text(words.lede(results)), *tables, Text(words.paid(results))]
    if caution:
        parts.append(Text(caution, style="yellow"))
    console.print(Group(*parts))


def _table(results: Results, kind: Kind) -> Table:
    table = Table(
        title=Text(f"{words.title(results, kind)}: {words.opening(results, kind)}"),
        title_justify="left",
        box=None,
    )
    table.add_column("", no_wrap=True)
    for column in ("tok/s", "× plain", "predicted", "tokens a cycle", "guessed"):
        table.add_column(column, justify="right")
    previous = None
    for setting in results.settings:
        group = (setting.sampling, setting.phase)
        if group != previous:
            table.add_row(Text(f"{setting.sampling}, {words.PHASES[setting.phase]}", style="italic dim"))
            previous = group
        figures = results.figures(kind, setting)
        usual = bool(setting.phase) and setting == results.usual(setting.phase, setting.sampling)
        table.add_row(
            Text(f"  {setting_name(setting.name)}"),
            f"{figures.rates.middle:.1f}",
            f"{figures.ratio:.2f}",
            f"{figures.predicted:.2f}",
            f"{figures.trace.tokens_per_cycle:.2f}",
            f"{1 - figures.shares['oracle']:.0%}",
            style="bold" if usual else "",
        )
    return table
