"""Where a model runs: as asked for, or the best that has room, with a word about it."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
import torch

from engine import engine as engine_module
from engine.engine import load
from engine.errors import DraftlineError, OutOfMemory
from engine.placement import Placement, is_out_of_memory, placements
from engine.request import SamplingParams
from tests.engine.tiny_models import write_model

GPU = "cuda"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU that computes in bfloat16, as far as choosing goes."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_it_is_the_cpu_with_int8():
    assert placements("auto", "auto") == placements("cpu", "auto") == [Placement("cpu", "int8")]
    assert placements("auto", "fp32") == [Placement("cpu", "fp32"), Placement("cpu", "int8")]


@pytest.mark.usefixtures("gpu")
def test_with_a_gpu_it_is_16_bits_there_then_int8_there_then_the_cpu():
    assert placements("auto", "auto") == [
        Placement(GPU, "bf16"), Placement(GPU, "int8"), Placement("cpu", "int8")
    ]  # fmt: skip
    assert placements(GPU, "auto") == [Placement(GPU, "bf16"), Placement(GPU, "int8")]
    assert placements("cpu", "auto") == [Placement("cpu", "int8")]
    assert placements("auto", "fp16") == [Placement(GPU, "fp16"), Placement("cpu", "int8")]


def test_an_older_gpu_computes_in_float16(gpu: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    assert placements(GPU, "auto")[0] == Placement(GPU, "fp16")
    assert Placement(GPU, "int8").cache_dtype is torch.float16


@pytest.mark.usefixtures("gpu")
def test_a_model_fits_if_some_memory_is_left_beside_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (4 << 30, 8 << 30))
    billion = 1_000_000_000
    assert Placement(GPU, "bf16").fits(billion)
    assert not Placement(GPU, "bf16").fits(2 * billion)
    assert Placement(GPU, "int8").fits(2 * billion)


def test_on_a_cpu_too(monkeypatch: pytest.MonkeyPatch):
    """Linux would promise the memory and then kill the process, and with it every window's suggestions."""
    memory = psutil.virtual_memory()._replace(available=2_000_000_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    assert Placement("cpu", "int8").fits(1_000_000_000)
    assert not Placement("cpu", "int8").fits(2_000_000_000)
    assert not Placement("cpu", "fp32").fits(500_000_000)


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize("asked", [(GPU, "auto"), ("tpu", "auto"), ("mps", "auto"), ("cpu", "int3")])
def test_what_there_is_not_is_refused_in_one_sentence(asked: tuple[str, str]):
    with pytest.raises(DraftlineError) as raised:
        placements(*asked)
    assert str(raised.value).endswith(".")
    assert str(raised.value).count(". ") == 0


@pytest.mark.usefixtures("gpu")
def test_where_the_first_choice_has_no_room_the_next_is_taken_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = write_model(tmp_path / "tiny")
    tried = []
    load_checkpoint = engine_module.load_checkpoint

    def full(path, weights, on_progress=None, device="cpu"):
        tried.append((device, weights))
        if device == GPU:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return load_checkpoint(path, weights, on_progress, device)

    monkeypatch.setattr(engine_module, "load_checkpoint", full)
    engine = load(model)
    assert tried == [(GPU, "bf16"), (GPU, "int8"), ("cpu", "int8")]
    assert (engine.device, engine.weights) == ("cpu", "int8")
    assert engine.notice == (
        "There is no room in the GPU's memory for tiny with bf16 weights; it runs on cpu with int8 weights."
    )
    with pytest.raises(OutOfMemory, match="no room in the GPU's memory"):
        load(model, device=GPU)


def test_the_first_choice_needs_no_word(tmp_path: Path):
    assert load(write_model(tmp_path / "tiny"), device="cpu").notice == ""


def test_on_a_cpu_smaller_weights_are_taken_where_there_is_room_for_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = write_model(tmp_path / "tiny")
    monkeypatch.setattr(Placement, "fits", lambda self, parameters: self.weights == "int8")
    engine = load(model, device="cpu", weights="fp32")
    assert engine.weights == "int8"
    assert engine.notice == (
        "There is no room in this machine's memory for tiny with fp32 weights; "
        "it runs on cpu with int8 weights."
    )
    monkeypatch.setattr(Placement, "fits", lambda self, parameters: False)
    with pytest.raises(OutOfMemory, match="no room in this machine's memory with int8 weights: close"):
        load(model, device="cpu")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory"
        ),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8589934592 bytes."),
    ],
)
def test_a_request_for_which_there_is_no_memory_fails_in_a_sentence_and_the_next_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    engine = load(write_model(tmp_path / "tiny"), device="cpu")
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "decode", Mock(side_effect=error))
        with pytest.raises(OutOfMemory, match="no room left in this machine"):
            list(engine.generate([1, 2, 3], SamplingParams(4)))
    assert list(engine.generate([1, 2, 3], SamplingParams(4)))


def test_another_error_is_not_taken_for_a_lack_of_memory():
    assert not is_out_of_memory(RuntimeError("the size of tensor a must match"))
    assert not is_out_of_memory(ValueError("cannot allocate memory"))
