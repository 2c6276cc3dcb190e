"""The files of a model directory: JSON and safetensors in, and a whole new directory out.

Only safetensors are read, never a pickle: they cannot run code.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from engine.errors import DraftlineError
from engine.process_memory import forget_file


def read_json(path: Path) -> dict[str, Any]:
    """The object in ``path``, a file of a model directory.

    Raises:
        DraftlineError: the file is missing or garbled.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DraftlineError(
            f"{path.parent} is not a model directory: {path.name} is missing; fetch a model with "
            "`model-setup fetch`."
        ) from error
    except (OSError, ValueError) as error:
        raise DraftlineError(f"{path} cannot be read ({error}); fetch the model again.") from error
    if not isinstance(content, dict):
        raise DraftlineError(f"{path} does not hold a JSON object; fetch the model again.")
    return content


class Tensors:
    """Every tensor of a directory's safetensors files, by name. They stay on disk until they are taken."""

    def __init__(self, directory: Path, device: str = "cpu") -> None:
        """Open the one file of ``directory``, or all that its index names. device: where tensors are put.

        Raises:
            DraftlineError: a file is missing, cut short or no safetensors.
        """
        index = directory / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if index.exists():
            places = read_json(index).get("weight_map")
            if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
                raise DraftlineError(f"{index} does not say where each tensor is; fetch the model again.")
            names = sorted(set(places.values()))
        self.directory = directory
        self._device = device
        self._files: dict[str, Any] = {}
        self._paths = [directory / name for name in names]
        for path in self._paths:
            try:
                opened = safe_open(path, framework="pt")
            except (OSError, SafetensorError) as error:
                raise DraftlineError(
                    f"{path} cannot be read as safetensors ({error}); fetch the model again with "
                    "`model-setup fetch`."
                ) from error
            self._files.update(dict.fromkeys(list(opened.keys()), opened))  # type: ignore[no-untyped-call]

    def items(self) -> Iterator[tuple[str, Tensor]]:
        """Each name with its tensor, one after the other."""
        for name, file in self._files.items():
            yield name, file.get_tensor(name)

    @property
    def parameters(self) -> int:
        """The number of elements of all tensors."""
        return sum(self.sizes().values())

    def sizes(self) -> dict[str, int]:
        """The number of elements of each tensor, by name."""
        return {name: math.prod(file.get_slice(name).get_shape()) for name, file in self._files.items()}

    def forget(self) -> None:
        """Let go of the memory that reading them has taken. Those in use are read again."""
        for path in self._paths:
            forget_file(path)

    def find(self, name: str) -> Tensor | None:
        """The tensor ``name`` whatever its shape; None if there is none."""
        for spelled in spellings(name):
            if spelled in self._files:
                tensor: Tensor = self._files[spelled].get_tensor(spelled)
                return tensor.to(self._device)
        return None

    def get(self, name: str, *shape: int) -> Tensor:
        """The tensor ``name`` of numbers, which must have ``shape``.

        Raises:
            DraftlineError: there is none, it has another shape, or not all of its values are finite.
        """
        tensor = self.find(name)
        if tensor is None:
            raise DraftlineError(
                f"The model in {self.directory} has no tensor {name}; fetch the model again."
            )
        if tensor.shape != shape:
            raise DraftlineError(
                f"The tensor {name} in {self.directory} has shape {list(tensor.shape)} where its "
                f"config.json says {list(shape)}; fetch the model again."
            )
        if not all(map(math.isfinite, map(float, torch.aminmax(tensor)))):
            raise DraftlineError(
                f"The tensor {name} in {self.directory} has values that are not numbers; fetch the model "
                "again."
            )
        return tensor


def spellings(name: str) -> tuple[str, str]:
    """As a tensor is called, today and in GPT-2's own files."""
    return name, name.removeprefix("transformer.")


@contextmanager
def replaced_directory(target: Path) -> Iterator[Path]:
    """A new directory to fill, which takes the place of ``target`` at the end: as a whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        fresh = Path(scratch) / "new"
        fresh.mkdir()
        yield fresh
        if target.exists():
            target.replace(Path(scratch) / "old")
        fresh.replace(target)
