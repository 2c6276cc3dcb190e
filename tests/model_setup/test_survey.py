"""Whether a repository has changed, told apart for what is learned from and what is held out."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_setup.corpus import held_out
from model_setup.survey import Survey, survey


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    for number in range(40):
        (folder / f"module_{number}.py").write_text(f"number = {number}\n", encoding="utf-8")
    return folder


def one(repository: Path, is_held_out: bool) -> Path:
    return next(path for path in repository.iterdir() if held_out(Path(path.name)) == is_held_out)


def hashes(found: Survey) -> tuple[str, str]:
    return found.learned, found.held_out


def test_each_side_changes_with_its_own_files(repository):
    before = survey(repository)
    assert 0 < before.held_out_files < before.report.files == 40
    assert before.learned_characters < before.report.characters
    with one(repository, False).open("a") as file:
        file.write("more = 1\n")
    learned = survey(repository)
    assert learned.learned != before.learned
    assert learned.held_out == before.held_out
    one(repository, True).unlink()
    both = survey(repository)
    assert both.learned == learned.learned
    assert both.held_out != before.held_out


def test_nothing_has_changed_when_only_times_and_secrets_have(repository):
    one(repository, False).write_text("password = 'hunter22'\nx = 1\n", encoding="utf-8")
    before = survey(repository)
    one(repository, False).write_text("password = 'hunter23'\nx = 1\n", encoding="utf-8")
    assert hashes(survey(repository)) == hashes(before)


def test_a_moved_file_is_a_change(repository):
    before = survey(repository)
    one(repository, False).rename(repository / "another.py")
    assert hashes(survey(repository)) != hashes(before)


def test_a_folder_inside_stands_for_its_repository(repository):
    (repository / ".git").mkdir()
    (repository / "part").mkdir()
    assert survey(repository / "part").root == repository.resolve()


def test_progress_is_told(repository, monkeypatch):
    monkeypatch.setattr("model_setup.survey._FILES_BETWEEN_REPORTS", 10)
    seen: list[int] = []
    survey(repository, seen.append)
    assert seen == [10, 20, 30, 40]
