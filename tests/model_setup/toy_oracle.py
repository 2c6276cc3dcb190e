"""A tiny oracle that has learned a little code by heart, and what it says of it."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.nn import functional
from torch.optim import AdamW

from engine.checkpoint import load_checkpoint
from engine.placement import Placement
from engine.tokenizer import Tokenizer
from model_setup.predictions import Teacher
from model_setup.recall import Example
from model_setup.trainable import Trainable
from model_setup.windows import cut_windows
from tests.engine.tiny_models import write_model

LENGTH = 64
FILES = {
    f"board{number}.py": "".join(
        f"def paint_{number}_{line}(canvas):\n    return canvas.draw({line})\n" for line in range(4)
    )
    for number in range(6)
}


def write_oracle(directory: Path) -> Path:
    """A model directory."""
    random = directory.with_name(f"{directory.name}-random")
    sizes = {"hidden_size": 32, "intermediate_size": 48, "max_position_embeddings": LENGTH}
    write_model(random, num_hidden_layers=3, **sizes)
    model, tokenizer = Trainable(random), Tokenizer(random / "tokenizer.json")
    text = [ids[:LENGTH] for ids in tokenizer.encode_batch(list(FILES.values()))]
    tokens = torch.tensor(text)
    optimizer = AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        scores = model(tokens, torch.ones_like(tokens, dtype=torch.bool))
        functional.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    directory.mkdir()
    model.write(directory, model.tensors())
    return directory


def write_repository(folder: Path) -> Path:
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def asked_examples(oracle: Path) -> list[Example]:
    """Windows of the files, with what the oracle says of them."""
    loaded = load_checkpoint(oracle, "fp32")
    teacher = Teacher(loaded.transformer, Placement("cpu", "fp32"))
    documents = loaded.tokenizer.encode_batch(list(FILES.values()))
    windows = cut_windows(documents, loaded.tokenizer.special, LENGTH)
    return [Example(window, teacher.ask(window)) for window in windows]
