"""`draftline settings`: what is set, and where."""

from __future__ import annotations

import json

from lsp_server.settings import TABLE
from lsp_server.settings_sources import Merged, user_file


def show_settings(merged: Merged) -> int:
    """Print what each setting is, and where that stands; an editor or a project may have it otherwise."""
    width = max(map(len, TABLE))
    for name, setting in TABLE.items():
        source = merged.came_from.get(name)
        value = setting.unset if source is None and setting.unset else _shown(getattr(merged.settings, name))
        print(f"{name:<{width}}  {value}" + (f"  ({source})" if source else ""))
    print(f"\nYour file is {user_file()}; an editor and the file of a trusted project stand over it.")
    return 0


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
