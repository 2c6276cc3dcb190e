"""Several processes train one draft, as `accelerate launch` starts them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model_setup import store
from model_setup.draft_start import read_training
from model_setup.recall import Recall
from tests.model_setup.toy_oracle import write_oracle, write_repository

ROOT = Path(__file__).parents[2]
ENOUGH_STEPS = 100


@pytest.mark.slow
def test_two_processes_started_by_accelerate_train_one_draft(tmp_path: Path, scratch_home: Path) -> None:
    pytest.importorskip("accelerate", reason="pip install '.[train]'")
    oracle = write_oracle(tmp_path / "oracle")
    repository = write_repository(tmp_path / "repository")
    for seconds in (8, 40, 200):  # a busy machine may take the first ones to read what it learns from
        said = _trained_by_two(oracle, repository, seconds)
        assert said["processes"] == 2
        if said["steps"] >= ENOUGH_STEPS:
            break
    assert Recall(**said["after"]).better_than(Recall(**said["before"]))


def _trained_by_two(oracle: Path, repository: Path, seconds: int) -> dict[str, Any]:
    """What the draft's directory says of its training."""
    command = [
        *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"),  # or it starts one
        *("--num_processes", "2"),
        *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
        *("-m", "model_setup.train_draft", str(repository), "--model", str(oracle)),
        *("--seconds", str(seconds), "--device", "cpu"),
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("The draft (made)") == 1
    directory = store.trained_draft(repository, oracle.name)
    assert directory is not None
    said = read_training(directory)
    shutil.rmtree(directory)
    return said
