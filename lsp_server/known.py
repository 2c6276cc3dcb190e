"""What is known for a request without asking the model."""

from __future__ import annotations

from dataclasses import replace

from lsp_server.asked import Asked
from lsp_server.cache import AFTER, Cache, Known, Window, window_of
from lsp_server.completer import place_of
from lsp_server.documents import Cursor, text_from
from lsp_server.trimming import trim

_CLOSED_AT_ONCE = ("()", "[]", "{}", '""', "''", "``")


def known_at(cache: Cache, asked: Asked) -> Known | None:
    """A suggestion for just this text, or the rest of one whose beginning was typed."""
    window = window_of(asked.lines, asked.cursor)
    known = cache.get(asked.uri, window)
    if known is None and window.before[-1:] + window.after[:1] in _CLOSED_AT_ONCE:
        known = _known_unclosed(cache, asked, window)
    return known


def _known_unclosed(cache: Cache, asked: Asked, window: Window) -> Known | None:
    """What is known for the text without the bracket or quote that the editor put right of the cursor."""
    right = Cursor(asked.cursor.line, asked.cursor.character + 1)
    known = cache.get(asked.uri, Window(window.before, text_from(asked.lines, right, AFTER)))
    place = place_of(asked.lines, asked.cursor)
    lines = [one for one in known.suggestions if "\n" not in one.text] if known else []
    left = [replace(one, text=trim(one.text, place, unfinished=False)) for one in lines]
    if known is None or not any(one.text for one in left):
        return None
    known = Known(tuple(one for one in left if one.text), known.several)
    cache.put(asked.uri, window, known)
    return known
