"""Where things live, and that nothing half-written counts as installed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from engine.errors import DraftlineError
from model_setup import store
from model_setup.presets import default_preset


@pytest.fixture
def model() -> Path:
    """An installed default model of two small files."""
    directory = store.model_directory(default_preset().name)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{}", encoding="utf-8")
    (directory / "model.safetensors").write_bytes(b"weights")
    store.write_manifest(directory, source="a test", source_sha256="ab")
    return directory


def test_home_is_where_the_variable_says_else_the_users_data_folder(
    scratch_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.home() == scratch_home
    monkeypatch.delenv("DRAFTLINE_HOME")
    assert store.home().name == "draftline"


def test_a_whole_model_is_installed(model: Path) -> None:
    name = default_preset().name
    assert store.installed_model(name) == store.verified_model(name) == model
    assert store.resolve_model() == store.resolve_model(name) == model


def test_a_trained_draft_is_found_by_any_folder_of_its_repository_if_it_is_whole(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (inner := tmp_path / "src").mkdir()
    assert store.trained_draft(tmp_path, "oracle") is None
    directory = store.draft_directory(tmp_path, "oracle")
    directory.mkdir(parents=True)
    (directory / "model.safetensors").write_bytes(b"weights")
    assert store.trained_draft(tmp_path, "oracle") is None
    store.write_manifest(directory, source="a test", source_sha256="")
    assert store.trained_draft(tmp_path, "oracle") == store.trained_draft(inner, "oracle") == directory
    assert store.trained_draft(tmp_path, "another") is None
    (directory / "model.safetensors").write_bytes(b"weigh")
    assert store.trained_draft(tmp_path, "oracle") is None


def test_the_manifest_names_the_source_and_every_file(model: Path) -> None:
    manifest = json.loads((model / store.MANIFEST).read_text(encoding="utf-8"))
    assert (manifest["source"], manifest["source_sha256"]) == ("a test", "ab")
    assert manifest["files"]["model.safetensors"] == {
        "size": 7,
        "mtime_ns": (model / "model.safetensors").stat().st_mtime_ns,
        "sha256": store.sha256_of(model / "model.safetensors"),
    }
    assert manifest["files"].keys() == {"config.json", "model.safetensors"}


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        "",
        "{",
        "[]",
        '{"converter": 0, "files": {}}',
        '{"converter": 1}',
        '{"converter": 1, "files": [1]}',
    ],
)
def test_without_a_sound_manifest_a_model_is_absent(model: Path, manifest: str | None) -> None:
    path = model / store.MANIFEST
    if manifest is None:
        path.unlink()
    else:
        path.write_text(manifest, encoding="utf-8")
    assert store.installed_model(default_preset().name) is None


def test_a_shorter_or_missing_file_makes_a_model_absent(model: Path) -> None:
    name = default_preset().name
    os.truncate(model / "model.safetensors", 6)
    assert store.installed_model(name) is None
    (model / "model.safetensors").unlink()
    assert store.installed_model(name) is None
    with pytest.raises(DraftlineError, match=f"{name} is damaged or unfinished; run `model-setup fetch`"):
        store.resolve_model()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_model_whose_bytes_were_changed_is_not_loaded(model: Path, name: str) -> None:
    path = model / name
    before = path.stat().st_mtime_ns
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))
    os.utime(path, ns=(before + 1_000_000, before + 1_000_000))
    assert store.installed_model(default_preset().name) is None
    assert store.verified_model(default_preset().name) is None
    with pytest.raises(DraftlineError, match="is damaged or unfinished; run `model-setup fetch`"):
        store.resolve_model()


def test_the_full_check_sees_what_changed_without_a_trace(model: Path) -> None:
    path = model / "model.safetensors"
    before = path.stat().st_mtime_ns
    path.write_bytes(b"Weights")
    os.utime(path, ns=(before, before))
    assert store.verified_model(default_preset().name) is None


def test_a_model_that_was_only_copied_is_still_installed(model: Path) -> None:
    os.utime(model / "model.safetensors", (0, 0))
    assert store.installed_model(default_preset().name) == model


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "some.gguf"
    file.touch()
    assert store.resolve_model(str(file)) == file
    assert store.resolve_model(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["nonsense", "~nobody-of-that-name/a.gguf"])
def test_an_unknown_model_is_one_sentence(name: str) -> None:
    with pytest.raises(DraftlineError, match=rf"no model {name}; give a directory.*qwen2\.5-coder-0\.5b"):
        store.resolve_model(name)


def test_another_preset_is_asked_for_by_name() -> None:
    with pytest.raises(DraftlineError, match="run `model-setup fetch --preset smollm2-135m`"):
        store.resolve_model("smollm2-135m")


def test_every_folder_of_a_repository_leads_to_its_table(tmp_path: Path) -> None:
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    inner = tmp_path / "repository" / "source"
    inner.mkdir()
    path = store.trigram_path(inner, "f" * 64)
    assert path == store.trigram_path(tmp_path / "repository", "f" * 64)
    assert path == store.trigram_path(inner / ".." / "source", "f" * 64)
    assert path.is_relative_to(store.home() / "trigrams")


def test_tables_are_apart_by_repository_and_by_vocabulary(tmp_path: Path) -> None:
    one, other = tmp_path / "a" / "same", tmp_path / "b" / "same"
    one.mkdir(parents=True)
    other.mkdir(parents=True)
    paths = {store.trigram_path(folder, print_ * 64) for folder in (one, other) for print_ in "fe"}
    assert len(paths | {store.general_trigram_path("f" * 64)}) == 5


def test_the_second_of_two_waits_and_says_so() -> None:
    order: list[str] = []
    waiting = threading.Event()

    def on_wait() -> None:
        order.append("second waits")
        waiting.set()

    def second() -> None:
        with store.only_one("tiny", on_wait):
            order.append("second works")

    thread = threading.Thread(target=second)
    with store.only_one("tiny", lambda: order.append("first waits")):
        thread.start()
        assert waiting.wait(30)
        order.append("first is done")
    thread.join()
    assert order == ["second waits", "first is done", "second works"]


def test_all_that_is_learned_in_a_repository_lies_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "src").mkdir()
    root, inside = tmp_path / "shop", tmp_path / "shop" / "src"
    key = store.repository_key(root)
    assert key.startswith("shop-")
    assert store.repository_key(inside) == key
    assert store.draft_directory(inside, "oracle") == store.home() / "drafts" / key / "oracle"
    assert store.report_directory(inside) == store.home() / "reports" / key
    assert store.trigram_path(inside, "0123").parent == store.home() / "trigrams" / key


def test_what_a_model_writes_has_another_place_once_the_model_was_trained_further(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    weights = model / "model.safetensors"
    weights.write_bytes(b"one" * 100_000)
    first = store.generated_path(tmp_path, "f" * 64, model)
    assert first.parent == store.trigram_path(tmp_path, "f" * 64).parent
    (model / "notes.txt").write_text("read me", encoding="utf-8")
    assert store.generated_path(tmp_path, "f" * 64, model) == first
    weights.write_bytes(b"two" * 100_000)
    assert store.generated_path(tmp_path, "f" * 64, model) != first
