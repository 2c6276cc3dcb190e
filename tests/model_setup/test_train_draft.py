"""Several processes train one draft, as `accelerate launch` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from model_setup import store
from model_setup.draft_start import read_training
from tests.model_setup.toy_oracle import write_oracle, write_repository

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_two_processes_started_by_accelerate_train_one_draft(tmp_path: Path, scratch_home: Path) -> None:
    pytest.importorskip("accelerate", reason="pip install '.[train]'")
    oracle = write_oracle(tmp_path / "oracle")
    repository = write_repository(tmp_path / "repository")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"),  # or it starts one
            *("--num_processes", "2"),
            *("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"),
            *("-m", "model_setup.train_draft", str(repository), "--model", str(oracle)),
            *("--seconds", "8", "--device", "cpu"),
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("The draft (made)") == 1
    directory = store.trained_draft(repository, oracle.name)
    assert directory is not None
    described = read_training(directory)
    assert described["processes"] == 2
    assert described["after"]["top4"] > described["before"]["top4"]
