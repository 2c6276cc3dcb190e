"""The report's charts as inline SVG. Widths are in per cent and heights in pixels, so text never shrinks.

Colours come from the page's style sheet by class, so the charts follow its light and dark forms. What a chart
shows also stands in a table of the page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from engine.request import Origin

_ROW = 34  # pixels: a label and the bar below it
_LABEL, _BAR, _THICK = 12, 17, 11
_FULL = 86.0  # per cent: a longest bar's, which leaves room for its number
_HEIGHT, _TOP = 150, 8  # pixels of upright bars, and above them
_GUTTER = 8.0  # per cent, for the numbers left of them


@dataclass(frozen=True)
class Bar:
    """mark: where a line across the bar is drawn. quiet: drawn hollow."""

    label: str
    value: float
    mark: float | None = None
    quiet: bool = False


def bars(title: str, rows: Sequence[Bar], unit: str = "×") -> Markup:
    """One bar below the other, with a dashed line at 1."""
    longest = max(1.0, *(max(row.value, row.mark or 0.0) for row in rows))
    parts = [_line(_FULL / longest, _FULL / longest, 0, _ROW * len(rows), "one")]
    for number, row in enumerate(rows):
        top = number * _ROW
        width = _FULL * row.value / longest
        parts.append(_text(0, top + _LABEL, row.label))
        kind = "bar quiet" if row.quiet else "bar"
        parts.append(_rect(0, top + _BAR, width, _THICK, kind))
        if row.mark is not None:
            at = _FULL * row.mark / longest
            parts += [
                _line(at, at, top + _BAR - 3, top + _BAR + _THICK + 3, kind) for kind in ("halo", "mark")
            ]
        after = max(width, 0.0 if row.mark is None else _FULL * row.mark / longest)
        parts.append(_text(after, top + _BAR + 10, f"{row.value:.2f} {unit}", "value", shift=7))
    return _svg(title, _ROW * len(rows), parts)


Parts = Mapping[Origin, float]


def stacked(title: str, rows: Sequence[tuple[str, Parts]], number: Callable[[Parts], str]) -> Markup:
    """A bar a row in as many parts as there are stages. number: of its parts, what stands behind a bar."""
    longest = max(sum(parts.values()) for _, parts in rows)
    drawn = []
    for place, (label, parts) in enumerate(rows):
        top, left = place * _ROW, 0.0
        drawn.append(_text(0, top + _LABEL, label))
        for stage, part in parts.items():
            width = _FULL * part / longest
            if part > 0:
                drawn.append(_rect(left, top + _BAR, width, _THICK, stage))
            left += width
        drawn.append(_text(left, top + _BAR + 10, number(parts), "value", shift=7))
    return _svg(title, _ROW * len(rows), drawn)


def sorted_bars(title: str, values: Sequence[float], before: Sequence[float] = ()) -> Markup:
    """Upright bars in rising order; ``before`` are dots at the same places (Spector & Ré 2023, figure 2)."""
    highest = math.ceil(max(1.0, *values, *before))
    order = sorted(range(len(values)), key=values.__getitem__)
    step = (100 - _GUTTER) / len(values)
    parts = []
    for level in sorted({1, *range(0, highest + 1, math.ceil(highest / 5))}):
        y = _top(level, highest)
        parts.append(_line(_GUTTER, 100, y, y, "one" if level == 1 else "grid"))
        parts.append(_text(0, y + 4, f"{level} ×", "value"))
    for place, index in enumerate(order):
        left, y = _GUTTER + place * step, _top(values[index], highest)
        parts.append(_rect(left + step * 0.15, y, step * 0.7, _top(0, highest) - y, "bar"))
        if before:
            parts.append(_dot(left + step / 2, _top(before[index], highest)))
    return _svg(title, _TOP + _HEIGHT + 6, parts)


def _top(value: float, highest: float) -> float:
    return _TOP + _HEIGHT * (1 - value / highest)


def _svg(title: str, height: float, parts: Sequence[Markup]) -> Markup:
    inner = Markup("").join(parts)
    return Markup(
        '<svg role="img" aria-label="{}" width="100%" height="{:.0f}"><title>{}</title>{}</svg>'
    ).format(title, height, title, inner)


def _rect(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """x, width: per cent, here and below."""
    return Markup('<rect x="{:.2f}%" y="{:.1f}" width="{:.2f}%" height="{:.1f}" class="{}"/>').format(
        x, y, width, height, kind
    )


def _line(left: float, right: float, top: float, bottom: float, kind: str) -> Markup:
    return Markup('<line x1="{:.2f}%" x2="{:.2f}%" y1="{:.1f}" y2="{:.1f}" class="{}"/>').format(
        left, right, top, bottom, kind
    )


def _dot(x: float, y: float) -> Markup:
    return Markup('<circle cx="{:.2f}%" cy="{:.1f}" r="3" class="dot"/>').format(x, y)


def _text(x: float, y: float, text: str, kind: str = "label", shift: int = 0) -> Markup:
    return Markup('<text x="{:.2f}%" y="{:.1f}" dx="{}" class="{}">{}</text>').format(x, y, shift, kind, text)
