"""The command `draftline`: what it understands, and one sentence for what it does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.placement import WEIGHTS
from lsp_server import cli
from lsp_server.completer import Completer
from lsp_server.documents import Cursor
from lsp_server.writer import EngineWriter
from tests.lsp_server.scripted_engine import ScriptedEngine


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "t.py"
    path.write_bytes("def add(a, b):\r\n    s = 'я'\x0c\r\n    return ".encode())
    return path


@pytest.fixture
def scripted(monkeypatch):
    engine = ScriptedEngine(lambda prefix, suffix: "a + b" if prefix.endswith("return ") else "")
    monkeypatch.setattr("lsp_server.loading.load_completer", lambda settings: Completer(EngineWriter(engine)))


def run(*arguments):
    try:
        return cli.main([str(argument) for argument in arguments])
    except SystemExit as exit:
        return exit.code


def test_complete_prints_the_suggestion(source, scripted, capsys):
    assert run("complete", f"{source}:3:11") == 0
    assert capsys.readouterr() == ("a + b\n", "")


def test_complete_prints_nothing_where_there_is_nothing_to_suggest(source, scripted, capsys):
    assert run("complete", f"{source}:1:0") == 0
    assert capsys.readouterr() == ("", "")


def test_complete_prints_data(source, scripted, capsys):
    assert run("complete", f"{source}:3:11", "--json", "--mode", "plain") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["suggestion"] == "".join(answer["tokens"]) == "a + b"
    assert answer["origins"] == ["oracle"] * 5
    assert answer["tokens_per_cycle"] == 1
    assert (answer["model"], answer["device"], answer["weights"]) == ("scripted", "cpu", "fp32")


def test_complete_goes_by_the_settings_where_the_command_line_says_nothing(
    source, scripted, capsys, monkeypatch
):
    monkeypatch.setenv("DRAFTLINE_MAX_TOKENS", "3")
    monkeypatch.setenv("DRAFTLINE_SEED", "many")
    assert run("complete", f"{source}:3:11") == 0
    printed = capsys.readouterr()
    assert printed.out == "a +\n"
    assert printed.err.startswith("seed in the environment must be")
    assert run("complete", f"{source}:3:11", "--max-tokens", 1) == 0
    assert capsys.readouterr().out == "a\n"


def test_complete_stops_at_so_many_tokens(source, scripted, capsys):
    assert run("complete", f"{source}:3:11", "--max-tokens", 1) == 0
    assert capsys.readouterr().out == "a\n"


@pytest.mark.parametrize("weights", ["auto", *WEIGHTS])
def test_weights_are_those_that_the_engine_takes(weights, source, scripted):
    assert run("complete", f"{source}:3:11", "--weights", weights) == 0


def test_columns_count_characters_and_lines_end_as_in_the_editor(source):
    assert cli.read_place(f"{source}:2:12")[2] == Cursor(1, 12)


def test_a_drive_letter_is_part_of_the_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("C:t.py").write_text("x\n", encoding="utf-8")
    assert cli.read_place("C:t.py:1:1")[0] == Path("C:t.py")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["complete", "{source}"], "not of the form FILE:LINE:COL"),
        (["complete", "{source}:1:-1"], "not of the form FILE:LINE:COL"),
        (["complete", "{source}:1:" + "9" * 5000], "not of the form FILE:LINE:COL"),
        (["complete", "{source}:1:0", "--max-tokens", "9" * 5000], "is not a whole number above zero"),
        (["complete", "nowhere.py:1:0"], "There is no file nowhere.py"),
        (["complete", "{source}:0:0"], "has no line 0; give a LINE from 1 to 3"),
        (["complete", "{source}:4:0"], "has no line 4"),
        (["complete", "{source}:2:13"], "has 12 characters"),
        (["complete", "{folder}:1:0"], "cannot be read"),
        (["complete", "{binary}:1:0"], "is not UTF-8 text"),
        (["complete", "{source}:1:0", "--max-tokens", "-3"], "-3 is not a whole number above zero"),
        (["complete", "{source}:1:0", "--max-tokens", "0"], "0 is not a whole number above zero"),
        (["complete", "{source}:1:0", "--mode", "fast"], "invalid choice: 'fast'"),
        (["complete", "{source}:1:0"], "is not installed; run `model-setup fetch"),
        (["complete", "{source}:1:0", "--model", "nowhere"], "There is no model nowhere"),
        (["complete"], "required: FILE:LINE:COL"),
        (["--colour"], "unrecognized arguments: --colour"),
        ([], "say what to do"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(arguments, sentence, source, monkeypatch, capsys):
    monkeypatch.setenv("DRAFTLINE_HOME", str(source.parent / "home"))
    binary = source.with_name("t.bin")
    binary.write_bytes(b"\xff\xfe")
    names = {"source": source, "folder": source.parent, "binary": binary}
    assert run(*(argument.format(**names) for argument in arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_ctrl_c_is_130(source, monkeypatch, capsys):
    def interrupted(settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("lsp_server.loading.load_completer", interrupted)
    assert run("complete", f"{source}:3:11") == 130


def test_the_version_is_printed(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out.startswith("draftline ")
