"""What the settings make of loading in this process; no model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DraftlineError
from lsp_server import loading
from lsp_server.settings import Settings


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """What the engine is asked to load, by name, and on how many threads; it fails then."""
    asked = {}

    def load(oracle, **options):
        asked.update(oracle=oracle, **options)
        raise DraftlineError("That is enough.")

    monkeypatch.setattr("engine.load", load)
    monkeypatch.setattr(loading, "use_threads", lambda chosen: asked.update(threads=chosen))
    monkeypatch.setattr(loading, "resolve_model", lambda name: tmp_path / (name or "default"))
    return asked


def test_what_is_loaded_is_what_is_set(asked, tmp_path):
    settings = Settings(model="m", draft="d", draft2="t", weights="int8", device="cpu", threads=3)
    with pytest.raises(DraftlineError, match="enough"):
        loading.load_completer(settings)
    del asked["on_progress"], asked["step_times"]
    assert asked == {
        "oracle": tmp_path / "m",
        "draft": tmp_path / "d",
        "draft2": Path("t").absolute(),
        "weights": "int8",
        "device": "cpu",
        "threads": 3,
    }


def test_what_is_loaded_where_nothing_is_set(asked, tmp_path):
    with pytest.raises(DraftlineError, match="enough"):
        loading.load_completer(Settings())
    assert (asked["oracle"], asked["draft"], asked["threads"]) == (tmp_path / "default", None, None)


def test_a_table_is_found_from_any_folder():
    """The process that holds the model has another working folder than the one whose settings name it."""
    assert loading.tables_for(Settings(draft2="a.trigram"), "f" * 64) == (Path("a.trigram").absolute(),)
