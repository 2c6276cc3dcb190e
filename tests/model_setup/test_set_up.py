"""`model-setup` in a repository, the whole of it: once, bounded, stopped anywhere, and taken away."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine import ngram_file
from engine.tokenizer import Tokenizer
from model_setup import cli, inventory, presets, set_up, steps, store, writing
from model_setup.corpus import held_out
from model_setup.fetch import fetch_model
from tests.model_setup.carriers import TinyIndex, make_tiny_index

Run = Callable[..., tuple[int, str, str]]
FILE = "def area(width, height):\n    return width * height\n"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyIndex:
    """The tiny preset is this machine's and installed, and writes twenty tokens, not for a minute."""
    index = make_tiny_index(tmp_path, monkeypatch)
    monkeypatch.setitem(presets.PRESETS, "tiny", index.preset)
    for module in (set_up, inventory, store):
        monkeypatch.setattr(module, "default_preset", lambda: index.preset)
    monkeypatch.setattr("model_setup.trigram.general_texts", lambda: iter([FILE]))
    monkeypatch.setattr(writing, "LENGTH", 6)
    monkeypatch.setattr(steps, "MOST_WRITTEN", 20)
    monkeypatch.setattr(steps, "LEAST_WRITTEN", 0)
    monkeypatch.setattr(steps, "draft_plan", lambda _oracle: Plan(pays=False))
    fetch_model(index.preset, index.gguf)
    return index


@dataclass
class Plan:
    """What `model_setup.draft_plan` says, as far as the command asks."""

    pays: bool
    parameters: int = 20_000_000
    seconds: float = 480.0
    why: str = "decoding is expected to become 1.02 times as fast, which is too little"


@dataclass
class Report:
    outcome: str
    before: str = "top 4: 40 %"
    after: str = "top 4: 60 %"


@pytest.fixture
def drafts(monkeypatch: pytest.MonkeyPatch, index: TinyIndex) -> list[float]:
    """Drafts pay, and are a copy of the model; the seconds that each was given."""
    given: list[float] = []

    def make_draft(_root, oracle, directory, seconds, _progress):
        given.append(seconds)
        shutil.copytree(oracle, directory, dirs_exist_ok=True)
        store.write_manifest(directory, source="a test", source_sha256="")
        return Report("made")

    monkeypatch.setattr(steps, "draft_plan", lambda _oracle: Plan(pays=True))
    monkeypatch.setattr("model_setup.draft.make_draft", make_draft)
    return given


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    for number in range(12):
        (folder / f"module_{number}.py").write_text(f"number = {number}\n{FILE}", encoding="utf-8")
    return folder


@pytest.fixture
def run(index: TinyIndex, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command's exit code, and its two outputs with all white space alike."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, " ".join(out.split()), " ".join(err.split())

    return run


def table(repository: Path) -> Path:
    return store.trigram_path(
        repository, Tokenizer(store.model_directory("tiny") / "tokenizer.json").fingerprint
    )


def test_one_command_does_it_all_and_a_second_one_nothing(run, repository):
    code, _, err = run(repository)
    assert code == 0
    assert "12 files (12 Python)" in err
    assert "fetch bring the model tiny, 0 MB: done" in err
    assert "These are estimates." in err
    stamp = table(repository).stat().st_mtime_ns
    code, _, err = run(repository)
    assert code == 0
    assert err.endswith("Nothing is left to do.")
    assert table(repository).stat().st_mtime_ns == stamp


def test_no_draft_is_trained_where_it_does_not_pay_unless_asked_for(run, repository, monkeypatch, drafts):
    monkeypatch.setattr(steps, "draft_plan", lambda _oracle: Plan(pays=False))
    _, _, err = run(repository)
    assert "draft not here: decoding is expected to become 1.02 times as fast, which is too little" in err
    assert drafts == []
    assert run("draft", repository, "--budget", "5m")[0] == 0
    assert drafts == [pytest.approx(300, abs=1)]


def test_without_a_draft_a_processor_writes_nothing_unless_it_has_much_time(run, repository, monkeypatch):
    monkeypatch.setattr(steps, "LEAST_WRITTEN", 100_000)
    _, _, err = run(repository)
    assert "generate not here: without a draft about 37 tokens a second can be written" in err
    assert "tokens that tiny wrote" not in err
    assert "let the model write" in run(repository, "--budget", "10h")[2]


def test_a_draft_writes_what_is_counted_and_is_not_trained_twice(run, repository, drafts):
    _, _, err = run(repository)
    assert "train a draft of 20M parameters: about 8 min" in err
    assert "draft: made; top 4: 40 %, now top 4: 60 %" in err
    assert drafts == [480.0]
    assert run(repository)[2].endswith("Nothing is left to do.")
    assert store.trained_draft(repository, "tiny") is not None
    _, out, _ = run("status", repository)
    assert "draft: repository-" in out
    (repository / "module_0.py").write_text("changed = True\n", encoding="utf-8")
    run(repository)
    assert len(drafts) == 2


def test_a_draft_is_thought_of_once_the_model_is_there(run, repository, drafts):
    shutil.rmtree(store.model_directory("tiny"))
    _, _, err = run(repository)
    assert "draft train a draft, if that pays here" in err
    assert drafts == [480.0]


def test_without_a_draft_there_is_none_to_export(run, repository, tmp_path):
    code, _, err = run("export", tmp_path / "to", repository)
    assert code == 2
    assert "No draft was trained in" in err


def test_a_change_is_learned_and_nothing_else_is_done(run, repository):
    run(repository)
    before = table(repository).read_bytes()
    (repository / "module_0.py").write_text("changed = True\n", encoding="utf-8")
    _, out, _ = run("status", repository)
    assert "trigram: 20" in out
    assert "stale: the code changed; run `model-setup`" in out
    code, _, err = run(repository)
    assert code == 0
    assert " s (the code changed)" in err
    assert "generate: " not in err
    assert table(repository).read_bytes() != before
    assert "stale" not in run("status", repository)[1]


def test_a_dry_run_lists_what_is_in_and_out_and_why_and_makes_nothing(run, repository):
    (repository / ".env").write_text("A=1\n", encoding="utf-8")
    kept_back = next(f"held_{number}.py" for number in range(1000) if held_out(Path(f"held_{number}.py")))
    (repository / kept_back).write_text("x = 2\n", encoding="utf-8")
    (repository / "module_0.py").write_text("password = 'hunter22'\nx = 1\n", encoding="utf-8")
    code, out, _ = run(repository, "--dry-run")
    assert code == 0
    assert "in module_0.py: Python, 6 characters" in out
    assert "without 1 lines that look like secrets" in out
    assert f"in {kept_back}: Python, 6 characters, held out" in out
    assert "out .env: secret file" in out
    assert not table(repository).exists()


def test_a_budget_too_small_for_a_step_leaves_it_for_the_next_run(run, repository):
    code, _, err = run(repository, "--budget", "1s", "--yes")
    assert code == 0
    assert "generate: left out, for it needs" in err
    assert table(repository).exists()
    _, _, err = run(repository)
    assert "tokens that tiny wrote" in err


@pytest.mark.parametrize("time", ["10", "0s", "1d", "-5m", "", "5m1h"])
def test_a_budget_that_is_no_time_is_refused(run, repository, time):
    code, _, err = run(repository, f"--budget={time}")
    assert code == 2
    assert "is no time such as 90s, 10m or 1h30m" in err


def test_with_a_terminal_it_asks_unless_told_not_to(run, repository, monkeypatch):
    monkeypatch.setattr(cli, "_may_ask", lambda: True)
    asked: list[str] = []

    def answer(question: str, **_options: object) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr(set_up.Confirm, "ask", answer)
    assert "Nothing was done." in run(repository)[2]
    assert asked == ["Go on?"]
    assert not table(repository).exists()
    assert run(repository, "--yes")[0] == 0
    assert asked == ["Go on?"]
    assert table(repository).exists()


def test_ctrl_c_is_one_sentence_and_what_was_made_stays(run, repository, monkeypatch):
    run(repository)
    before = table(repository).read_bytes()
    (repository / "module_0.py").write_text("changed = True\n", encoding="utf-8")

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("model_setup.trigram.write_counts", interrupted)
        code, _, err = run(repository)
    assert code == 130
    assert err.endswith("Interrupted; run the same command again to go on.")
    assert table(repository).read_bytes() == before
    assert run(repository)[0] == 0
    assert table(repository).read_bytes() != before


def test_without_room_on_the_disk_it_says_so_and_the_old_table_stays(run, repository, monkeypatch):
    run(repository)
    before = table(repository).read_bytes()
    (repository / "module_0.py").write_text("changed = True\n", encoding="utf-8")

    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ngram_file.tempfile, "NamedTemporaryFile", full)
    code, _, err = run(repository)
    assert code == 2
    assert "(No space left on device); make room" in err
    assert table(repository).read_bytes() == before


def test_a_table_of_another_tokenizer_or_damaged_is_made_again(run, repository):
    run(repository)
    good = table(repository).read_bytes()
    table(repository).write_bytes(good[:100])
    assert "stale: what it made is gone" in run("status", repository)[1]
    assert run(repository)[0] == 0
    assert table(repository).read_bytes() == good


def test_an_empty_repository_is_one_sentence(run, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = run(tmp_path / "empty")
    assert code == 2
    assert "has no source files to learn from" in err
    assert not list(store.home().glob("trigrams/empty*/*.trigram"))


def test_a_second_run_waits_for_the_first(run, repository, capsys):
    capsys.readouterr()
    waiting = threading.Event()

    class Heard(threading.Thread):
        def run(self) -> None:
            self.code = cli.main([str(repository)])

    second = Heard()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(set_up, "say", lambda message: waiting.set() if "waiting for it" in message else None)
        with store.only_one(store.repository_key(repository), lambda: None):
            second.start()
            assert waiting.wait(60)
            assert not table(repository).exists()
        second.join(120)
    assert second.code == 0
    assert table(repository).exists()


KILLED = """
import sys
from pathlib import Path
from types import SimpleNamespace
from model_setup import writing, presets, set_up, steps, trigram
tiny = presets.Preset("tiny", "", "", 1, "", 1, presets.PRESETS["smollm2-135m"].carriers)
presets.PRESETS["tiny"] = tiny
set_up.default_preset = lambda: tiny
writing.LENGTH = 6
trigram.general_texts = lambda: iter(["x = 1\\n"])
steps.MOST_WRITTEN = 10**9
steps.LEAST_WRITTEN = 0
steps.draft_plan = lambda oracle: SimpleNamespace(pays=False, parameters=1, seconds=1.0, why="")
set_up.set_up(Path(sys.argv[1]))
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no signal that cannot be caught")
def test_after_a_kill_it_goes_on_where_it_was_and_what_was_there_is_untouched(run, repository):
    run("trigram", repository)
    before = table(repository).read_bytes()
    (repository / "module_0.py").write_text("changed = True\n", encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(repository)],
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
    )
    written = store.generated_path(
        repository,
        Tokenizer(store.model_directory("tiny") / "tokenizer.json").fingerprint,
        store.model_directory("tiny"),
    )
    try:
        until = time.monotonic() + 120
        while not (written.exists() and written.stat().st_size > 2000):
            assert child.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < until, "it wrote nothing in two minutes"
            time.sleep(0.05)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert table(repository).read_bytes() == before
    kept = written.stat().st_size
    code, _, err = run(repository)
    assert code == 0
    assert "tokens that tiny wrote" in err
    assert written.stat().st_size >= kept - 1000  # but for half a batch
    assert table(repository).read_bytes() != before


def test_what_was_learned_is_taken_away_and_nothing_else(run, repository, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "other.py").write_text(FILE * 5, encoding="utf-8")
    run(repository)
    run(other)
    files = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    code, _, err = run("remove", repository)
    assert code == 2
    assert "Nobody is there to be asked; say `model-setup remove --yes`" in err
    assert table(repository).exists()
    code, _, err = run("remove", repository, "--yes")
    assert code == 0
    assert not [path for path in store.home().rglob("repository-*") if path.suffix != ".lock"]
    assert table(other).exists()
    assert store.installed_model("tiny") is not None
    assert {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()} == files
    assert "Nothing was learned in" in run("remove", repository)[2]


def test_what_was_learned_in_a_repository_that_is_gone_can_be_taken_away(run, repository, tmp_path):
    run(repository)
    repository.rename(tmp_path / "moved")
    assert run("remove", repository, "--yes")[0] == 0
    assert not [path for path in store.home().rglob("repository-*") if path.suffix != ".lock"]


def test_one_says_no_to_taking_away(run, repository, monkeypatch):
    run(repository)
    monkeypatch.setattr(cli, "_may_ask", lambda: True)
    monkeypatch.setattr(inventory.Confirm, "ask", lambda *_question, **_options: False)
    assert "Nothing was deleted." in run("remove", repository)[2]
    assert table(repository).exists()


def test_a_step_that_nothing_came_of_is_tried_again(run, repository, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("model_setup.repository.generate_text", lambda *_arguments: 0)
        assert "generate: nothing came of it this time; the next run tries again." in run(repository)[2]
    assert "tokens that tiny wrote" in run(repository)[2]


def test_names_of_files_give_the_terminal_no_orders(run, repository):
    if os.name == "nt":
        pytest.skip("no such names there")
    (repository / "a\x1b[2Jb.py").write_text("x = 1\n", encoding="utf-8")
    code, out, _ = run(repository, "--dry-run")
    assert code == 0
    assert "in a\\x1b[2Jb.py: Python" in out
