"""Memory that is let go of holds the same values when it is used again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from engine import process_memory
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
        process_memory.settle_in_background()()
        after = transformer.logits(transformer.forward(tokens, tokens, cache, visible))
    assert torch.equal(before, after)


@linux_only
def test_collapsing_moves_whole_huge_pages_or_says_that_it_moved_none():
    held = torch.ones(32 * MEGABYTE // 4)
    assert process_memory.collapse() % process_memory._HUGE == 0
    assert float(held.sum()) == held.numel()
