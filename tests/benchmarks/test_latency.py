from __future__ import annotations

import sys
import time
from unittest import mock

import pytest

from engine import CancelToken, SamplingParams
from tests.benchmarks import latency
from tests.benchmarks.editor import LARGE_LINES, Asked, large, library_texts
from tests.benchmarks.observed_server import Watched
from tests.engine.tiny_models import write_model
from tests.lsp_server.scripted_engine import ScriptedEngine


def test_the_large_file_is_as_large_as_the_figure_says_and_has_the_text_in_its_middle():
    text = library_texts()[0]
    lines = large(text).splitlines(keepends=True)
    assert len(lines) == LARGE_LINES
    assert 1_250_000 < sum(map(len, lines)) < 1_350_000
    middle = LARGE_LINES // 2
    assert "".join(lines[middle - 200 : middle + 200]) == text


def test_the_99th_percentile_is_the_nearest_rank():
    assert latency.middle_and_worst([n / 1000 for n in range(1, 101)]) == "median 50.5 ms, p99 99.0 ms"
    assert latency.middle_and_worst([]) == "nothing to measure"


def test_time_besides_the_model_is_what_the_engine_did_not_spend():
    assert Asked("", sent=1.0, received=1.5, engine=0.375).besides == 0.125


def test_what_the_engine_does_is_written_down():
    engine = ScriptedEngine(lambda *parts: "abcdefghi", delay=0.002)
    watched = Watched(engine.generate)
    before = time.perf_counter()
    list(watched([257, 97], SamplingParams(max_tokens=0), CancelToken()))
    cancel = CancelToken()
    for _ in watched([257, 97], SamplingParams(max_tokens=6), cancel, context_ids=[97]):
        cancel.cancel()
    running = watched([257, 97], SamplingParams(max_tokens=6), CancelToken())
    next(running)

    done = watched.since(before)
    assert [(one.wanted, one.tokens, one.cut) for one in done.generations] == [
        (0, 0, False),
        (6, 3, True),
        (6, 3, False),
    ]
    assert [one.ended is None for one in done.generations] == [False, False, True]
    assert sum(end - start for start, end in done.passes) > 0.004
    assert done.generations[1].begun <= done.passes[1][0] <= done.passes[1][1] <= done.generations[1].ended

    running.close()
    after = time.perf_counter()
    assert watched.since(after).generations == []
    assert watched.since(after).passes == []


@pytest.mark.slow
def test_every_figure_is_measured_with_a_real_session(tmp_path, scratch_home, capsys, monkeypatch):
    model = write_model(tmp_path / "tiny", max_position_embeddings=2048)
    monkeypatch.setattr(
        sys, "argv", ["latency", "--model", str(model), "--weights", "fp32", "--requests", "2"]
    )
    with mock.patch.object(latency, "FILES", 20), mock.patch.object(latency, "WARM_UP", 5):
        assert latency.main() == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in latency.ROWS)
