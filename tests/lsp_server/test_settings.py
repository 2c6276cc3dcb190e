"""Options from the command line and the editor."""

from __future__ import annotations

import pytest

from engine.errors import DraftlineError
from lsp_server.settings import Settings


def test_the_editor_s_options_stand_over_the_command_line_s():
    settings = Settings(model="a", weights="fp32").updated({"model": "b", "weights": None, "colour": 3})
    assert (settings.model, settings.weights) == ("b", "fp32")


def test_an_option_of_the_wrong_kind_is_told():
    with pytest.raises(DraftlineError, match="weights"):
        Settings().updated({"weights": 8})
