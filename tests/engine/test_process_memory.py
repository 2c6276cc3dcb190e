"""Memory that is let go of holds the same values when it is used again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from engine import SamplingParams, load, process_memory, step_times
from engine.model_files import Tensors
from tests.engine.tiny_models import load_tiny, write_model

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
MEGABYTE = 1 << 20


def resident_of_files() -> int:
    """Bytes of mapped files that are in memory."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return 1024 * int(status.split("RssFile:")[1].split()[0])


def test_what_was_forgotten_is_read_again(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    written = torch.arange(16 * MEGABYTE // 4, dtype=torch.float32)
    save_file({"weights": written}, path)
    with safe_open(path, framework="pt") as file:
        mapped = file.get_tensor("weights")
        assert torch.equal(mapped, written)
        process_memory.forget_file(path)
        assert torch.equal(mapped, written)


@linux_only
def test_a_forgotten_file_takes_no_memory(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save_file({"weights": torch.ones(64 * MEGABYTE // 4)}, path)
    before = resident_of_files()
    with safe_open(path, framework="pt") as file:
        mapped = file.get_tensor("weights")
        assert float(mapped.sum()) > 0
        assert resident_of_files() > before + 60 * MEGABYTE
        process_memory.forget_file(path)
        assert resident_of_files() < before + 8 * MEGABYTE
    assert float(mapped[-1]) == 1


def test_a_loaded_model_computes_the_same_after_its_files_were_forgotten(tmp_path: Path):
    directory = write_model(tmp_path / "model")
    transformer = load_tiny(directory)
    tokens, cache = torch.arange(9), transformer.new_cache(20)
    visible = torch.ones(9, 9, dtype=torch.bool).tril()
    with torch.inference_mode():
        before = transformer.logits(transformer.forward(tokens, tokens, cache, visible))
        Tensors(directory).forget()
        process_memory.Settling().finish()
        after = transformer.logits(transformer.forward(tokens, tokens, cache, visible))
    assert torch.equal(before, after)


PIECES = 12


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When each of PIECES was moved, and the rest given back."""
    done: list[float] = []

    def collapse(before_each: Callable[[], None]) -> None:
        for _ in range(PIECES):
            before_each()
            done.append(time.monotonic())
            time.sleep(0.05)

    monkeypatch.setattr(process_memory, "collapse", collapse)
    monkeypatch.setattr(process_memory, "give_back", lambda: done.append(time.monotonic()))
    monkeypatch.setattr(process_memory, "_QUIET", 0.5)
    return done


def test_memory_is_not_moved_while_somebody_decodes_nor_just_afterwards(pieces):
    settling = process_memory.Settling()
    with settling.put_off():
        time.sleep(1)
        assert pieces == []
    ended = time.monotonic()
    settling._thread.join()
    assert len(pieces) == PIECES + 1
    assert pieces[0] >= ended + 0.5


def test_moving_it_pauses_while_somebody_decodes(pieces):
    settling = process_memory.Settling()
    while not pieces:
        time.sleep(0.001)
    with settling.put_off():
        time.sleep(0.1)  # the one that is being moved
        moved = len(pieces)
        time.sleep(0.3)  # six more, if nobody waited
        assert len(pieces) == moved
    settling._thread.join()
    assert len(pieces) == PIECES + 1


def test_who_waits_for_it_need_not_wait_until_nobody_decodes(pieces):
    settling = process_memory.Settling()
    with settling.put_off():
        settling.finish()
    assert len(pieces) == PIECES + 1


def test_an_engine_decodes_before_its_memory_is_moved(pieces, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(process_memory, "_QUIET", 10.0)  # longer than loading takes on a busy machine
    monkeypatch.setattr(step_times, "UNDISTURBED", 0)  # what is measured is kept, whoever has the cores
    monkeypatch.setattr(step_times, "_can_be_true", lambda seconds: True)
    directory, times = write_model(tmp_path / "model"), tmp_path / "times.json"
    load(directory, weights="int8", step_times=times)  # which measures, and waits for it
    pieces.clear()
    engine = load(directory, weights="int8", step_times=times)
    cycles = engine.generate([5, 6], SamplingParams(4, mode="plain"))
    next(cycles)
    monkeypatch.setattr(process_memory, "_QUIET", 0.1)  # seen after a quarter of the ten seconds
    time.sleep(3)
    assert pieces == []
    assert len(list(cycles)) == 3
    engine.settle()
    assert len(pieces) == PIECES + 1


@linux_only
def test_collapsing_moves_whole_huge_pages_or_says_that_it_moved_none():
    held = torch.ones(32 * MEGABYTE // 4)
    assert process_memory.collapse() % process_memory._HUGE == 0
    assert float(held.sum()) == held.numel()
