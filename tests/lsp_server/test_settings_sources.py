"""Which of the settings that stand in several places holds, and what is said of those that are wrong."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lsp_server.settings import TABLE, Settings
from lsp_server.settings_sources import (
    PROJECT_FILE,
    SettingsFile,
    Source,
    Sources,
    from_environment,
    merge,
)

needs_links = pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("DRAFTLINE_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_nothing_set_anywhere(home):
    merged = Sources({}).merged()
    assert merged.settings == Settings()
    assert not merged.wrong
    assert not merged.unknown


def test_the_order_of_the_sources(home, project, monkeypatch):
    sources = Sources({})
    sources.trust(project)
    steps = [
        lambda: write(home / "settings.toml", "seed = 1"),
        lambda: write(project / PROJECT_FILE, "seed = 2"),
        lambda: monkeypatch.setenv("DRAFTLINE_SEED", "3"),
    ]
    for number, step in enumerate(steps, start=1):
        step()
        sources = Sources({})
        sources.trust(project)
        assert sources.merged().settings.seed == number
    sources = Sources({"seed": 4})
    assert sources.merged().settings.seed == 4
    sources.set_options({"seed": 5})
    assert sources.merged().settings.seed == 5
    sources.set_configuration({"draftline": {"seed": 6}})
    assert sources.merged().settings.seed == 6
    assert sources.merged().came_from == {"seed": "the editor's settings"}
    sources.set_configuration(None)
    assert sources.merged().settings.seed == 5


def test_a_wrong_value_leaves_the_one_before_it_and_the_others_beside_it():
    merged = merge([Source("A", {"seed": 1}), Source("B", {"seed": "many", "max_tokens": 7})])
    assert (merged.settings.seed, merged.settings.max_tokens) == (1, 7)
    assert merged.wrong == [
        "seed in B must be a whole number from 0 to 2147483647, not 'many'; mend it there."
    ]


@pytest.mark.parametrize("address", ["https://me:hunter2@example.org", "https://:hunter2@example.org"])
def test_a_wrong_address_is_not_repeated_for_there_may_be_a_password_in_it(address):
    merged = merge([Source("A", {"server_url": address})])
    assert merged.settings.server_url is None
    assert "hunter2" not in merged.wrong[0]


def nested(depth):
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("name", ["temperature", "idle_minutes", "seed", "languages", "trigger"])
@pytest.mark.parametrize(
    "value", [10**400, -(10**5000), nested(20_000)], ids=["no float", "no text", "too deep"]
)
def test_a_value_that_cannot_even_be_shown_is_wrong_like_any_other(name, value):
    merged = merge([Source("A", {name: value, "max_tokens": 7})])
    assert merged.settings == Settings(max_tokens=7)
    (sentence,) = merged.wrong
    assert sentence.startswith(f"{name} in A must be ")


def test_an_unknown_name_is_told_with_the_nearest_known():
    merged = merge([Source("A", {"max_token": 3, "colour": "red"})])
    assert merged.settings == Settings()
    assert merged.unknown == [
        "There is no setting 'max_token' (in A); did you mean max_tokens?",
        "There is no setting 'colour' (in A).",
    ]


def test_names_as_editors_write_them():
    merged = merge([Source("A", {"maxTokens": 3, "pauseOnBattery": True, "draft2": "table"})])
    settings = merged.settings
    assert (settings.max_tokens, settings.pause_on_battery, settings.draft2) == (3, True, "table")


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("nothing", [None, ""])
def test_null_and_an_empty_text_mean_not_set(name, nothing):
    merged = merge([Source("A", {name: nothing})])
    assert merged.settings == Settings()
    assert not merged.wrong


def test_exclusions_add_up_and_languages_go_by_language():
    first = Source("A", {"exclude": ["a", "b"], "languages": {"*": False, "python": True}})
    settings = merge([first, Source("B", {"exclude": ["b", "c"], "languages": {"python": False}})]).settings
    assert settings.exclude == ("a", "b", "c")
    assert settings.languages == {"*": False, "python": False}


@pytest.mark.parametrize("name", [name for name, setting in TABLE.items() if setting.project is not True])
def test_what_a_project_may_not_set(name):
    value = {"integer": 1, "number": 1.0, "boolean": True, "string": "x"}[TABLE[name].kind.schema["type"]]
    value = TABLE[name].kind.schema.get("enum", [value])[-1]
    value = "https://example.org" if name == "server_url" else value
    source = Source("P", {name: value, "seed": 9}, is_project=True)
    merged = merge([source])
    assert merged.settings == Settings(seed=9)
    assert len(merged.wrong) == 1
    assert name in merged.wrong[0]
    assert "P" in merged.wrong[0]


def test_a_project_may_choose_among_the_presets():
    source = Source("P", {"model": "qwen2.5-coder-1.5b"}, is_project=True)
    assert merge([source]).settings.model == "qwen2.5-coder-1.5b"


def test_the_environment_writes_values_as_toml_does_but_texts_plainly():
    given = {
        "DRAFTLINE_MODEL": "C:\\models\\a",
        "DRAFTLINE_MAX_TOKENS": "32",
        "DRAFTLINE_ENABLED": "false",
        "DRAFTLINE_EXCLUDE": '["gen/", "*.sql"]',
        "DRAFTLINE_LANGUAGES": "{python = false}",
        "DRAFTLINE_TRIGGER": "manual",
        "DRAFTLINE_SEED": "",
        "DRAFTLINE_HOME": "/somewhere",
        "HOME": "/home/me",
    }
    merged = merge([from_environment(given)])
    assert not merged.wrong
    assert not merged.unknown
    assert merged.settings == Settings(
        model="C:\\models\\a",
        max_tokens=32,
        enabled=False,
        exclude=("gen/", "*.sql"),
        languages={"python": False},
        trigger="manual",
    )


@pytest.mark.parametrize("text", ["many", "1 2", "[" * 10_000, '"', "= 3"])
def test_a_wrong_value_in_the_environment(text):
    merged = merge([from_environment({"DRAFTLINE_SEED": text, "DRAFTLINE_TRIGGER": "manual"})])
    assert merged.settings == Settings(trigger="manual")
    assert len(merged.wrong) == 1
    assert merged.wrong[0].startswith("seed in the environment must be")


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*TABLE, "seeds"]) | st.text(max_size=8), json), st.booleans())
def test_whatever_a_source_holds_the_settings_are_right(values, is_project):
    merged = merge([Source("A", values, is_project=is_project)])
    assert len(merged.wrong) + len(merged.unknown) + len(merged.came_from) <= len(values)
    for name in merged.came_from:
        kept = getattr(merged.settings, name)
        assert TABLE[name].kind.read(kept) == kept
        assert not is_project or TABLE[name].project


def test_a_file_that_is_no_toml_is_told_and_the_other_sources_hold(home):
    write(home / "settings.toml", "seed = ")
    merged = Sources({"seed": 4}).merged()
    assert merged.settings.seed == 4
    assert len(merged.wrong) == 1
    assert str(home / "settings.toml") in merged.wrong[0]


@pytest.mark.parametrize("data", [b"\xff\xfe", b"#" * 100_001, b"a = " + b"[" * 50_000])
def test_files_that_cannot_be_read(tmp_path, data):
    path = tmp_path / "settings.toml"
    path.write_bytes(data)
    source = SettingsFile(path).source
    assert not source.given
    assert source.problem


def test_a_mark_that_some_editors_put_before_the_text_is_no_part_of_it(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_bytes(b"\xef\xbb\xbfseed = 1\r\n")
    assert SettingsFile(path).source == Source(str(path), {"seed": 1})


def test_a_folder_in_the_file_s_place_counts_as_none(tmp_path):
    assert SettingsFile(tmp_path).source == Source(str(tmp_path), {})


@needs_links
def test_a_project_s_file_that_links_out_of_it_is_not_read(tmp_path, project):
    write(tmp_path / "elsewhere.toml", "seed = 5")
    (project / PROJECT_FILE).symlink_to(tmp_path / "elsewhere.toml")
    source = SettingsFile(project / PROJECT_FILE, project).source
    assert not source.given
    assert "link" in source.problem


def test_only_a_trusted_project_s_file_counts(home, project):
    write(project / PROJECT_FILE, "seed = 5")
    sources = Sources({})
    assert sources.merged().settings.seed == 0
    sources.trust(project)
    assert sources.merged().settings.seed == 5
    sources.trust(None)
    assert sources.merged().settings.seed == 0


def test_files_are_looked_at_once_a_second_at_most(home, project):
    now = [0.0]
    sources = Sources({}, clock=lambda: now[0])
    sources.trust(project)
    write(home / "settings.toml", "seed = 1")
    write(project / PROJECT_FILE, "max_tokens = 2")
    assert not sources.changed()
    now[0] = 1.0
    assert sources.changed()
    assert (sources.merged().settings.seed, sources.merged().settings.max_tokens) == (1, 2)
    now[0] = 2.0
    assert not sources.changed()
    (home / "settings.toml").unlink()
    now[0] = 3.0
    assert sources.changed()
    assert sources.merged().settings.seed == 0


@pytest.mark.parametrize("sent", [None, [], "all", 7, {"draftline": None}, {"draftline": [1]}, {}])
def test_what_an_editor_sends_may_be_anything(home, sent):
    sources = Sources({})
    sources.set_options(sent)
    sources.set_configuration(sent)
    assert sources.merged().settings == Settings()
