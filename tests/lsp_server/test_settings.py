"""The table of settings: what may be set, and that the documents for people and editors say the same."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from engine.placement import DEVICES, WEIGHTS
from lsp_server.completer import MAX_TOKENS
from lsp_server.prompt_budget import CONTEXT_TOKENS
from lsp_server.setting_kinds import WrongValueError
from lsp_server.settings import LOADED_WITH, TABLE, Settings

DEFAULTS = {field.name: getattr(Settings(), field.name) for field in fields(Settings)}


def test_each_field_is_in_the_table():
    assert list(TABLE) == list(DEFAULTS)


@pytest.mark.parametrize("name", TABLE)
def test_a_default_is_a_value_of_its_setting_or_said_in_words(name):
    if TABLE[name].unset:
        assert DEFAULTS[name] in (None, {}, ())
    else:
        assert TABLE[name].kind.read(DEFAULTS[name]) == DEFAULTS[name]


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("max_tokens", 32, 32),
        ("max_tokens", 32.0, 32),
        ("temperature", 1, 1.0),
        ("exclude", ["a/*.py", "gen/"], ("a/*.py", "gen/")),
        ("languages", {"*": False, "python": True}, {"*": False, "python": True}),
        ("draft2", "~/a.trigram", str(Path.home() / "a.trigram")),
        ("repository", "~", str(Path.home())),
        ("server_url", "http://[::1]:8000/v1", "http://[::1]:8000/v1"),
    ],
)
def test_values(name, value, read):
    assert TABLE[name].kind.read(value) == read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_tokens", 0),
        ("max_tokens", True),
        ("max_tokens", "32"),
        ("max_tokens", 1.5),
        ("max_tokens", float("inf")),
        ("temperature", float("nan")),
        ("temperature", True),
        ("temperature", 2.1),
        ("enabled", 1),
        ("trigger", "sometimes"),
        ("trigger", ["manual"]),
        ("model", 5),
        ("model", "a\nb"),
        ("model", "  "),
        ("repository", "~nobody-of-that-name/a"),
        ("exclude", "*.py"),
        ("exclude", ["*.py", 3]),
        ("exclude", ["!*.py"]),
        ("exclude", ["a\\"]),
        ("languages", ["python"]),
        ("languages", {"python": "yes"}),
        ("server_url", "localhost:8000"),
        ("server_url", "ftp://example.org"),
        ("server_url", "https://me:password@example.org"),
        ("server_url", "http://example.org:port"),
        ("server_url", "http://[half"),
    ],
)
def test_wrong_values(name, value):
    with pytest.raises(WrongValueError):
        TABLE[name].kind.read(value)


def test_the_choices_and_sizes_are_the_engine_s_and_the_prompt_s():
    assert sorted(TABLE["weights"].kind.schema["enum"]) == sorted(["auto", *WEIGHTS])
    assert sorted(TABLE["device"].kind.schema["enum"]) == sorted(DEVICES)
    assert (Settings().max_tokens, Settings().context_tokens) == (MAX_TOKENS, CONTEXT_TOKENS)


def test_a_project_names_no_program_no_path_and_no_server():
    free = {name for name, setting in TABLE.items() if setting.project is True}
    assert not free & {"model", "draft", "draft2", "repository", "backend", "server_url", "server_model"}
    assert {name for name, setting in TABLE.items() if setting.project == "preset"} == {"model", "draft"}
    assert not free & set(LOADED_WITH)


def test_a_language_that_is_not_named_goes_by_the_star():
    settings = Settings(languages={"*": False, "python": True})
    assert settings.speaks("python")
    assert not settings.speaks("rust")
    assert Settings(languages={"python": False}).speaks("rust")


def test_what_the_model_is_loaded_with():
    usual = Settings()
    assert usual.loads_like(Settings(max_tokens=3, enabled=False))
    assert not usual.loads_like(Settings(model="other"))
