from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lsp_server.documents import Cursor
from model_setup.journal import Journal
from tests.benchmarks.cursors import Case
from tests.benchmarks.suggestions import VARIANTS, ahead, measure, peers, report, score
from tests.lsp_server.scripted_engine import ScriptedEngine

ABOVE = "".join(f"a{n} = {n}\n" for n in range(300))
BELOW = "".join(f"b{n} = {n}\n" for n in range(100))


@pytest.fixture
def mid_line(tmp_path):
    path = tmp_path / "m.py"
    path.write_text("def add(a, b):\n    return a + b\nprint()\n", encoding="utf-8")
    lines = ["def add(a, b):\n", "    return a\n", "print()\n"]
    return Case("mid-line", tmp_path, path, lines, Cursor(1, 12), [" + b"])


def answered(text, tokens=3, seconds=0.1):
    return {"text": text, "tokens": tokens, "seconds": seconds}


def test_a_text_is_right_if_it_is_what_the_author_wrote(mid_line):
    assert score(mid_line, answered(" + b")) == score(mid_line, answered(" + b  "))
    assert score(mid_line, answered(" + b")).first_line == 1
    more = score(mid_line, answered(" + b\n\nadd(1, 2)"))
    assert (more.first_line, more.whole, more.similarity) == (1, 0, 1)
    less = score(mid_line, answered(" - b"))
    assert (less.first_line, less.whole) == (0, 0)
    assert 0 < less.similarity < 1
    assert score(mid_line, answered("")).similarity == 0


def test_the_peers_see_so_many_lines_and_leave_indentation_to_the_model(tmp_path):
    lines = [*ABOVE.splitlines(keepends=True), "    \n", *BELOW.splitlines(keepends=True)]
    case = Case("line-start", tmp_path, tmp_path / "m.py", lines, Cursor(300, 4), ["return 1"])
    seen = []
    engine = ScriptedEngine(lambda *parts: seen.append(parts) or "    return 1\n    more")
    answer = peers(engine, case, above=64, below=16)
    assert (answer.text, seen) == (
        "return 1",
        [("a236 = 236\n" + ABOVE.split("a236 = 236\n")[1], seen[0][1])],
    )
    assert seen[0][1] == "\n" + "".join(BELOW.splitlines(keepends=True)[:16])
    assert answer.tokens == len("    return 1\n")


def test_the_peers_prompt_fits_where_the_context_is_short(mid_line):
    engine = ScriptedEngine(lambda *parts: "x", max_context=160)
    lines = [*ABOVE.splitlines(keepends=True), *mid_line.lines, *BELOW.splitlines(keepends=True)]
    case = Case("mid-line", mid_line.package, mid_line.path, lines, Cursor(301, 12), [" + b"])
    assert peers(engine, case, above=256, below=64).text == "x"
    assert len(engine.prompts[-1]) + 128 <= 160
    prefix, suffix = engine.parts(engine.prompts[-1])
    assert prefix.endswith("return a")
    assert suffix.startswith("\nprin")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_answers(mid_line, name):
    engine = ScriptedEngine(lambda prefix, suffix: "a + b\n" if prefix.endswith("return ") else " + b\n")
    answer = VARIANTS[name](engine, mid_line)
    assert answer.text.startswith(" + b")
    assert answer.tokens


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("all in the prefix", " + b\n"),
        ("the line in the middle", " + b\n"),
        ("without healing", " + b\n"),
        ("without trimming", " + b\n    c = 1\n"),
        ("without repetition cut", " + bbb" * 20),
        ("without block ends", " + b\n\n\nc = 1\n"),
    ],
)
def test_a_step_left_out_makes_a_difference(mid_line, name, written):
    lines = [*ABOVE.splitlines(keepends=True)[:11], *mid_line.lines]
    case = replace(mid_line, lines=lines, cursor=Cursor(12, 12))

    def ask(variant):
        engine = ScriptedEngine(lambda prefix, suffix: "a" * prefix.endswith("return ") + written)
        return VARIANTS[variant](engine, case), engine.prompts

    assert ask(name) != ask("pipeline")


def test_a_package_s_other_files_are_shown_unless_a_variant_leaves_them_out(mid_line, tmp_path):
    shelf = "def shelf_of(book_title, author_name):\n    return (author_name, book_title)\n"
    (tmp_path / "shelves.py").write_text(shelf, encoding="utf-8")
    lines = ["from shelves import shelf_of\n", "place = shelf_of(book_title, author_name\n"]
    case = Case("mid-line", tmp_path, mid_line.path, lines, Cursor(1, len(lines[1]) - 1), [")"])
    engine = ScriptedEngine(lambda *parts: "")
    for name in ("pipeline", "without other files", "without any context"):
        VARIANTS[name](engine, case)
    shown, left_out, nothing = (engine.tokenizer.decode(prompt) for prompt in engine.prompts)
    assert "return (author_name" in shown
    assert "return (author_name" not in left_out
    assert len(nothing) <= len(left_out)


def test_each_answer_is_asked_for_once_and_a_stopped_run_goes_on(mid_line, tmp_path):
    engine = ScriptedEngine(lambda prefix, suffix: " + b\n" if prefix.endswith("a") else "")
    on_disk = []
    engine.generate, generate = (
        lambda *a, **k: on_disk.append(mid_line.path.read_text("utf-8")) or generate(*a, **k),
        engine.generate,
    )
    output, names, made_of = tmp_path / "out.jsonl", ["pipeline", "peers 64/16"], {"server": "1"}
    first = measure(engine, [mid_line], names, Journal(output), made_of)
    assert [score.first_line for scores in first.values() for score in scores] == [1, 1]
    asked = len(on_disk)
    assert asked == 4, "each after a request that makes the engine forget"
    assert "return a + b" not in on_disk[1]
    assert "return a + b" in mid_line.path.read_text("utf-8")

    with output.open("a", encoding="utf-8") as file:
        file.write('{"settings": {"killed in mid-')
    assert measure(engine, [mid_line], names, Journal(output), made_of) == first
    assert len(on_disk) == asked
    measure(engine, [mid_line], names, Journal(output), {"server": "2"})
    assert len(on_disk) == asked + 2, "ours changed, and the peers' way did not"
    texts = [json.loads(line)["measured"]["text"] for line in output.read_text("utf-8").splitlines()[:2]]
    assert texts == [" + b", " + b"]


def test_how_far_ahead_is_told_with_its_uncertainty():
    mean, low, high = ahead([1, 1, 1, 0] * 25, [0, 1, 1, 0] * 25)
    assert mean == 0.25
    assert 0.1 < low < mean < high < 0.4
    assert ahead([1, 0], [1, 0]) == (0, 0, 0)


def test_the_report_names_every_variant_and_kind(mid_line, capsys):
    start = Case("line-start", mid_line.package, mid_line.path, mid_line.lines, Cursor(1, 4), ["x"])
    right, wrong = (score(mid_line, answered(text)) for text in (" + b", " - c"))
    report([mid_line, start], {"pipeline": [right, right], "peers 64/16": [right, wrong]})
    printed = capsys.readouterr().out
    assert "peers 64/16            line-start       0.0%" in printed
    assert "line-start  first line +100.0% (+100.0% to +100.0%)" in printed
