"""What this machine and model could do at best, to stand beside what they do.

Decoding one token reads all weights once, so it takes as long as reading so many bytes, whatever computes.
The rows of a long prompt share that reading, so it takes as long as its products. A cycle of speculation
costs at least what plain decoding's does, so its tokens a cycle are the most by which it can be faster.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from engine.int8_rounding import LEVELS
from engine.linear_packed import Int8Linear
from engine.transformer import Transformer

BYTES = 1 << 29  # far more than any cache holds
ROWS, OUT, IN = 96, 1152, 896  # a product whose weights, 1 MB, stay in a core's own cache
TIMES = 20


def bytes_a_second() -> float:
    """Read from memory by all of PyTorch's threads: the largest of many numbers is sought."""
    numbers = torch.ones(BYTES // 4)
    return BYTES / _quickest(numbers.max)


@torch.inference_mode()
def products_a_second() -> float:
    """Of an activation and a weight, both int8, by all of PyTorch's threads, without reading from memory."""
    product = Int8Linear(torch.randn(OUT, IN), None)
    integers = torch.randint(-LEVELS, LEVELS + 1, (ROWS, IN)).float()
    return ROWS * OUT * IN / _quickest(lambda: product._product(integers))


@torch.inference_mode()
def seconds_of_products(model: Transformer, rows: int) -> float:
    """Of a pass of so many rows, all products and nothing between them."""
    config = model.config
    hidden, attended, wide = (
        torch.randn(rows, width)
        for width in (config.hidden, config.heads * config.head_dim, config.intermediate)
    )
    products = [(model._head, hidden)]
    for layer in model._layers:
        products += [(layer.qkv, hidden), (layer.output, attended), (layer.up, hidden), (layer.down, wide)]

    def run() -> None:
        for product, x in products:
            product(x)

    return _quickest(run)


def _quickest(run: Callable[[], object]) -> float:
    """Seconds."""
    seconds = []
    for _ in range(TIMES):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)
