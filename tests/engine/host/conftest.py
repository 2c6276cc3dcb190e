"""Fixtures for the tests of the host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.host.hosts import Desk, ended


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ended(Desk(tmp_path)) as it:
        yield it
