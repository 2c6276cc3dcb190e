"""Neovim's screen as an SVG: the cells and colours that it tells a user interface, for README's picture."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import Any

WIDTH, HEIGHT, SIZE = 8.4, 18, 14  # pixels of a cell, and of its letters
BORDER = 10


def picture(nvim: Any) -> str:
    """What stands on the screen now, with a bar where the next letter goes."""
    columns, rows = nvim.options["columns"], nvim.options["lines"]
    nvim.ui_attach(columns, rows, rgb=True, ext_linegrid=True)
    screen = _Screen(rows, columns)
    while not screen.whole:
        _, _, batches = nvim.next_message()
        for name, *events in batches:
            for event in events:
                screen.take(name, event)
    nvim.ui_detach()
    return screen.svg()


class _Screen:
    """Follows a user interface's events, see `:help ui-linegrid`."""

    def __init__(self, rows: int, columns: int) -> None:
        self.cells = [[(" ", 0)] * columns for _ in range(rows)]
        self.missing = set(range(rows))
        self.whole = False
        self.styles: dict[int, dict[str, Any]] = {0: {}}
        self.colours = (0xFFFFFF, 0)
        self.cursor = (0, 0)

    def take(self, name: str, event: list[Any]) -> None:
        if name == "default_colors_set":
            self.colours = (event[0], event[1])
        elif name == "hl_attr_define":
            self.styles[event[0]] = event[1]
        elif name == "grid_cursor_goto":
            self.cursor = (event[1], event[2])
        elif name == "grid_line":
            self._line(*event[1:4])
        elif name == "flush":
            self.whole = not self.missing

    def _line(self, row: int, column: int, cells: list[list[Any]]) -> None:
        style = 0
        for text, *rest in cells:
            style = rest[0] if rest else style
            for _ in range(rest[1] if len(rest) > 1 else 1):
                self.cells[row][column] = (text, style)
                column += 1
        self.missing.discard(row)

    def svg(self) -> str:
        width = BORDER * 2 + WIDTH * len(self.cells[0])
        height = BORDER * 2 + HEIGHT * len(self.cells)
        row, column = self.cursor
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
                f'width="{width:g}" height="{height:g}" font-family="monospace" font-size="{SIZE}">',
                f'<rect width="100%" height="100%" rx="6" fill="{_hex(self.colours[1])}"/>',
                *(piece for number, cells in enumerate(self.cells) for piece in self._row(number, cells)),
                _box(row, column, 2, _hex(self.colours[0])),
                "</svg>",
                "",
            ]
        )

    def _row(self, row: int, cells: list[tuple[str, int]]) -> list[str]:
        pieces = []
        for style, run in groupby(enumerate(cells), key=lambda cell: cell[1][1]):
            places = list(run)
            column, text = places[0][0], "".join(letter for _, (letter, _) in places)
            ink, paper = self._paint(style)
            if paper != self.colours[1]:
                pieces.append(_box(row, column, WIDTH * len(places), _hex(paper)))
            if text.strip():
                look = ' font-weight="bold"' if self.styles[style].get("bold") else ""
                look += ' font-style="italic"' if self.styles[style].get("italic") else ""
                pieces.append(
                    f'<text x="{BORDER + WIDTH * column:g}" y="{BORDER + HEIGHT * (row + 0.75):g}" '
                    f'textLength="{WIDTH * len(places):g}" lengthAdjust="spacingAndGlyphs" '
                    f'xml:space="preserve" fill="{_hex(ink)}"{look}>{escape(text)}</text>'
                )
        return pieces

    def _paint(self, style: int) -> tuple[int, int]:
        """The colours of letters and of what is behind them."""
        given = self.styles[style]
        ink, paper = given.get("foreground", self.colours[0]), given.get("background", self.colours[1])
        return (paper, ink) if given.get("reverse") else (ink, paper)


def _box(row: int, column: int, width: float, colour: str) -> str:
    left, top = BORDER + WIDTH * column, BORDER + HEIGHT * row
    return f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{HEIGHT}" fill="{colour}"/>'


def _hex(colour: int) -> str:
    return f"#{colour:06x}"
