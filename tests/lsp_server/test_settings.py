"""Options from the command line and the editor."""

from __future__ import annotations

import pytest

from engine.errors import DraftlineError
from lsp_server.settings import Settings, repository_of


def test_the_editor_s_options_stand_over_the_command_line_s():
    settings = Settings(model="a", weights="fp32").updated({"model": "b", "weights": None, "colour": 3})
    assert (settings.model, settings.weights) == ("b", "fp32")


def test_an_option_of_the_wrong_kind_is_told():
    with pytest.raises(DraftlineError, match="weights"):
        Settings().updated({"weights": 8})


def test_a_file_s_repository_is_the_nearest_parent_with_git(tmp_path):
    (tmp_path / ".git").mkdir()
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    assert repository_of(folder / "c.py") == tmp_path


def test_a_file_outside_any_repository_has_its_folder(tmp_path):
    (tmp_path / "c.py").touch()
    assert repository_of(tmp_path / "c.py") == tmp_path
