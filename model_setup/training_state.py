"""Where a training stands, on disk, so that a killed run goes on as if nothing had happened."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.optim import AdamW

from model_setup.draft_files import write_tensors
from model_setup.recall import Recall
from model_setup.trainable import Trainable


@dataclass
class Progress:
    """step: steps done. seconds: spent on them. before, best: recall at the start, and the best so far.
    looks: how many of the evaluations are done; stale: those since the best that were no better."""

    step: int
    seconds: float
    before: Recall
    best: Recall
    looks: int = 0
    stale: int = 0


class TrainingState:
    """The file at ``path`` of the training called ``key``; another one's is not gone on from."""

    def __init__(self, path: Path, key: str) -> None:
        self._path = path
        self._key = key

    def save(self, model: Trainable, optimizer: AdamW, best: dict[str, Tensor], progress: Progress) -> None:
        """best: the weights of the best evaluation.

        Raises:
            DraftlineError: there is no room; what was saved before is untouched.
        """
        tensors = {f"best.{name}": tensor for name, tensor in best.items()}
        for name, parameter in model.model.named_parameters():
            tensors[f"weights.{name}"] = parameter.detach()
            for part in ("exp_avg", "exp_avg_sq"):
                tensors[f"{part}.{name}"] = optimizer.state[parameter][part]
        write_tensors(self._path, tensors, {"key": self._key, "progress": json.dumps(asdict(progress))})

    def restore(self, model: Trainable, optimizer: AdamW) -> tuple[Progress, dict[str, Tensor]] | None:
        """Go on from what was saved: its progress and best weights; None if there is nothing to go on from.

        Raises:
            ValueError: there is, but it is damaged; model and optimizer are untouched.
        """
        try:
            with safe_open(self._path, framework="pt") as file:
                described = file.metadata() or {}
                if described.get("key") != self._key:
                    return None
                progress = _read_progress(json.loads(described["progress"]))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, no dict
            parameters = dict(model.model.named_parameters())
            parts = {
                name: [tensors.pop(f"{part}.{name}") for part in ("weights", "exp_avg", "exp_avg_sq")]
                for name in parameters
            }
            if any(part.shape != parameters[name].shape for name in parts for part in parts[name]):
                raise ValueError("other shapes")
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(str(error)) from error
        with torch.no_grad():
            for name, parameter in parameters.items():
                weights, mean, square = parts[name]
                parameter.copy_(weights)
                optimizer.state[parameter] = {
                    "step": torch.tensor(float(progress.step)),
                    "exp_avg": mean.to(parameter.device),
                    "exp_avg_sq": square.to(parameter.device),
                }
        return progress, {name.removeprefix("best."): tensor for name, tensor in tensors.items()}

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)


def _read_progress(described: dict[str, Any]) -> Progress:
    recalls = {name: Recall(**described[name]) for name in ("before", "best")}
    return Progress(**{**described, **recalls})
