"""Fixtures for the tests in editors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.host.hosts import Desk, desk_of_servers


@pytest.fixture
def desk(scratch_home: Path) -> Iterator[Desk]:
    """The one place that the servers of all windows share; the model's process there is scripted."""
    with desk_of_servers(scratch_home) as it:
        yield it
