from __future__ import annotations

import pytest
import torch

from tests.benchmarks.peers import Written, _Streamer


@pytest.fixture
def clock(monkeypatch):
    times = iter([10.0, 10.5, 12.0])
    monkeypatch.setattr("tests.benchmarks.peers.time.perf_counter", lambda: next(times))


def test_the_clock_starts_with_the_first_new_tokens(clock):
    written = Written()
    for tokens in ([7, 8], [9], [4, 5, 6]):
        written.arrived(tokens)
    assert written.tokens == [7, 8, 9, 4, 5, 6]
    assert (written.timed, written.seconds) == (4, 2.0)


def test_what_transformers_hands_over_first_is_the_prompt(clock):
    streamer = _Streamer()
    for tokens in ([[1, 2, 3]], [7, 8], [[9]], [4]):
        streamer.put(torch.tensor(tokens))
    streamer.end()
    assert streamer.written.tokens == [7, 8, 9, 4]
    assert (streamer.written.timed, streamer.written.seconds) == (2, 2.0)
