"""Fixtures for all tests: nobody's real home is touched, and the real model is fetched once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from model_setup.presets import Preset, default_preset, find_preset

# Test processes share the cores: a thread that waits for the others must not keep one busy. Read when torch
# is loaded, so it stands before anything that does.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if _WORKERS := os.environ.get("PYTEST_XDIST_WORKER_COUNT"):
    # A core each: a product on two threads takes as long as the one whose core another test has. What is
    # started by a test has the same.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // int(_WORKERS))))

_USERS_HOME = os.environ.get("DRAFTLINE_HOME")

# a test says what is right, not how fast this machine is just now
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(autouse=True)
def scratch_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where Draftline keeps its files during this test; child processes inherit it. A host ends with it."""
    home = tmp_path / "draftline-home"
    monkeypatch.setenv("DRAFTLINE_HOME", str(home))
    yield home
    if (home / "host").exists():
        from lsp_server.host_command import stop

        stop()


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The directory of the real default model. For tests marked slow."""
    return _fetched(default_preset())


@pytest.fixture(scope="session")
def second_model() -> Path:
    """A real model of another family, Llama, and 90 MB to fetch. For tests marked slow."""
    return _fetched(find_preset("smollm2-135m"))


def _fetched(preset: Preset) -> Path:
    """A model in the user's own store, fetched unless it is there; where it cannot be, the test fails."""
    from model_setup.fetch import fetch_model

    with pytest.MonkeyPatch.context() as patch:
        if _USERS_HOME is None:
            patch.delenv("DRAFTLINE_HOME", raising=False)
        else:
            patch.setenv("DRAFTLINE_HOME", _USERS_HOME)
        return fetch_model(preset)


@pytest.fixture
def home_with_default_model(default_model: Path, scratch_home: Path) -> Path:
    """A scratch home in which the default model is installed, for tests that start our commands."""
    target = scratch_home / "models" / default_model.name
    target.mkdir(parents=True)
    for file in default_model.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:  # another disk, or one without links
            shutil.copyfile(file, target / file.name)
    return scratch_home
