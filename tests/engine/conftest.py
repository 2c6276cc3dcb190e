"""Fixtures for the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[None]:
    """One thread: tiny models gain nothing from more, and on a busy machine wait for them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def set_threads() -> Iterator[Callable[[int], None]]:
    """For tests of what more threads must not change."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
