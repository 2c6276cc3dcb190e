"""The demo: where it asks, what it tells, and that its server is gone afterwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from engine.errors import DraftlineError
from lsp_server import demo
from lsp_server.demo_places import BETWEEN_FUNCTIONS, IN_BRACKETS, MID_FUNCTION, find_places

PYTHON = '''\
import os


def first(a, b):
    """Says something."""
    я = "п"
    c = a + b + len(я)
    d = c * 2
    print(d, sep=a)
    return d


def second(a):
    return a
'''
RUST = """\
fn first(a: i32) -> i32 {
    let b = combine(a, 1);
    b
}

fn second() -> i32 {
    let value = 12345;
    return value + 1;
}
"""


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    return folder


def cursors(repository):
    marked = {}
    for kind, places in find_places(repository).items():
        for place in places[:1]:
            line = place.text.split("\n")[place.cursor.line]
            marked[kind] = (place.cursor.line, line[: place.cursor.character])
    return marked


def test_places_in_python_come_from_its_syntax(repository):
    (repository / "a.py").write_text(PYTHON, encoding="utf-8")
    assert cursors(repository) == {
        MID_FUNCTION: (7, "    d = "),
        IN_BRACKETS: (8, "    print("),
        BETWEEN_FUNCTIONS: (11, ""),
    }


def test_what_is_to_be_written_is_taken_out(repository):
    (repository / "a.py").write_text(PYTHON, encoding="utf-8")
    places = find_places(repository)
    (mid,), (brackets,) = places[MID_FUNCTION], places[IN_BRACKETS]
    assert (mid.end.line, mid.end.character) == (9, 12)
    assert brackets.end.character - brackets.cursor.character == len("d, sep=a")


def test_places_in_other_languages_come_from_simple_rules(repository):
    (repository / "a.rs").write_text(RUST, encoding="utf-8")
    assert cursors(repository) == {
        MID_FUNCTION: (6, "    let value = "),
        IN_BRACKETS: (1, "    let b = combine("),
        BETWEEN_FUNCTIONS: (4, ""),
    }


def test_the_repository_s_main_language_comes_first(repository):
    (repository / "a.rs").write_text(RUST, encoding="utf-8")
    for name in ("b.py", "c.py"):
        (repository / name).write_text(f"# {name}\n{PYTHON}", encoding="utf-8")
    for places in find_places(repository).values():
        assert [place.path.name for place in places] == ["b.py", "c.py", "a.rs"]


@pytest.mark.parametrize("source", ["x = 1\n", "def broken(:\n"])
def test_a_repository_without_functions_is_told_in_one_sentence(repository, source):
    (repository / "a.py").write_text(source, encoding="utf-8")
    with pytest.raises(DraftlineError, match="no source file with functions"):
        find_places(repository)


@pytest.fixture
def command(tmp_path):
    def with_answers(answers, load="ok"):
        script = {"answers": answers, "delay": 0, "load": load, "log": str(tmp_path / "generations")}
        return ["-m", "tests.lsp_server.scripted_server", json.dumps(script)]

    return with_answers


def test_each_suggestion_is_shown_beside_the_plain_one(repository, command, capsys):
    for name in ("a.py", "b.py", "c.py"):
        (repository / name).write_text(f"{PYTHON}# {name}\n", encoding="utf-8")
    answers = {"d = ": "c * 3\n    return d", "print(": "a, b)", "\n\n": "def new():\n    pass"}
    status, shown = asyncio.run(demo.ask_all(command(answers), repository, find_places(repository)))
    assert [one.suggestion for _, one in shown] == ["c * 3\n    return d", "a, b", "def new():\n    pass"]
    assert [one.file for _, one in shown] == ["a.py", "b.py", "c.py"]
    assert all(one.equal and len(one.tokens) == len(one.origins) for _, one in shown)
    demo._print(status, shown)
    printed = capsys.readouterr().out
    assert "    print(a, b)" in printed
    assert "the same text" in printed
    assert "draft2" in printed


def test_the_first_place_with_a_suggestion_is_taken(repository, command):
    (repository / "a.py").write_text(PYTHON.replace("d = c * 2", "e = c * 2"), encoding="utf-8")
    (repository / "b.py").write_text(PYTHON, encoding="utf-8")
    places = find_places(repository)
    _, shown = asyncio.run(demo.ask_all(command({"    d = ": "1"}), repository, places))
    assert shown[0][1].file == "b.py"


def test_a_model_that_does_not_load_is_told_in_its_sentence(repository, command):
    (repository / "a.py").write_text(PYTHON, encoding="utf-8")
    with pytest.raises(DraftlineError, match="Fetch it"):
        asyncio.run(demo.ask_all(command({}, load="Fetch it."), repository, find_places(repository)))


def test_a_server_that_dies_is_told_in_one_sentence(repository):
    (repository / "a.py").write_text(PYTHON, encoding="utf-8")
    with pytest.raises(DraftlineError, match="The language server does not answer"):
        asyncio.run(demo.ask_all(["-c", "pass"], repository, find_places(repository)))


@pytest.mark.slow
def test_the_demo_with_the_real_model(home_with_default_model):
    done = subprocess.run(
        [sys.executable, "-m", "lsp_server.cli", "demo", "--json"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert {"model", "device", "weights", "load_seconds", "cursors"} == answer.keys()
    assert len(answer["cursors"]) == 3
    for cursor in answer["cursors"]:
        assert cursor["equal"]
        assert cursor["suggestion"] == cursor["plain"]
        assert len(cursor["tokens"]) == len(cursor["origins"])
        assert set(cursor["origins"]) <= {"draft2", "draft", "oracle"}
