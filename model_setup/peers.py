"""The processes that train one draft together: one a GPU, started by `accelerate launch` or torchrun.

These set WORLD_SIZE and what else `torch.distributed` goes by. Without them there is one process, alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import distributed, nn

T = TypeVar("T")


class Peers:
    """rank: the number of this process, 0 for the one that writes. count: how many there are."""

    def __init__(self, rank: int, count: int, device: str) -> None:
        self.rank = rank
        self.count = count
        self.device = device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, items: Sequence[T]) -> Sequence[T]:
        """This process's part of ``items``."""
        return items[self.rank :: self.count]

    def joined(self, model: nn.Module) -> nn.Module:
        """``model`` with its gradients averaged over all processes."""
        if self.count == 1:
            return model
        return nn.parallel.DistributedDataParallel(model)

    def agree(self, numbers: Sequence[float]) -> list[float]:
        """The first process's ``numbers``."""
        if self.count == 1:
            return list(numbers)
        said = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.broadcast(said, 0)
        return said.tolist()

    def total(self, numbers: Sequence[float]) -> list[float]:
        """The sums of all processes' ``numbers``."""
        if self.count == 1:
            return list(numbers)
        sums = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(sums)
        return sums.tolist()

    def wait(self) -> None:
        """Until all processes have come here."""
        if self.count > 1:
            distributed.barrier()


@contextmanager
def gathered(device: str) -> Iterator[Peers]:
    """The processes of this training. device: cpu, or cuda, of which each process takes one."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Peers(0, 1, device)
        return
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        torch.cuda.set_device(device)
    distributed.init_process_group("gloo" if device == "cpu" else "nccl")
    try:
        yield Peers(distributed.get_rank(), count, device)
    finally:
        distributed.destroy_process_group()
