"""llama.cpp and transformers under the stopwatch, writing as many tokens as ours, greedily.

A peer gets the prompt as token ids. Its first new tokens end the reading of the prompt and start its clock;
what it writes after them is timed. As ours, it goes on where a text ends, so that all write equally many.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from model_setup.benchmark_prompts import Prompt
from model_setup.store import resolve_model


@dataclass
class Written:
    """tokens: all that came. timed: how many of them after the first arrival, in ``seconds``."""

    tokens: list[int] = field(default_factory=list)
    timed: int = 0
    seconds: float = 0.0
    _started: float | None = None

    def arrived(self, tokens: Sequence[int]) -> None:
        now = time.perf_counter()
        self.tokens += tokens
        if self._started is None:
            self._started = now
        else:
            self.timed += len(tokens)
            self.seconds = now - self._started


Peer = Callable[[Prompt, int], Written]
"""Continues a prompt by so many timed tokens."""


@contextmanager
def llama_cpp(gguf: Path, guesses: int = 0) -> Iterator[Peer]:
    """llama.cpp on as many threads as torch has, plain or with its own prompt lookup of so many guesses."""
    from llama_cpp import Llama
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    draft = LlamaPromptLookupDecoding(num_pred_tokens=guesses) if guesses else None
    threads = torch.get_num_threads()
    model: Any = Llama(
        str(gguf), n_ctx=2048, n_threads=threads, n_threads_batch=threads, flash_attn=True, draft_model=draft,
        logits_all=guesses > 0,  # it needs them, and room for all
        verbose=False,
    )  # fmt: skip

    def write(prompt: Prompt, tokens: int) -> Written:
        written = Written()
        for token in itertools.islice(model.generate(prompt.ids, temp=0.0), tokens + 1):
            written.arrived([token])
        return written

    try:
        yield write
    finally:
        model.close()


def transformers_generate(assistant: Path | None = None, **options: Any) -> Peer:
    """transformers with the default model in fp32; assistant: a smaller one, with any tokenizer."""
    import transformers

    def loaded(directory: Path) -> Any:
        found = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
        found.generation_config.eos_token_id = None
        return found

    def tokenizer(directory: Path) -> Any:
        return transformers.PreTrainedTokenizerFast(tokenizer_file=str(directory / "tokenizer.json"))

    model = resolve_model(None)
    oracle = loaded(model)
    if assistant is not None:
        options["assistant_model"] = loaded(assistant)
        options["tokenizer"], options["assistant_tokenizer"] = tokenizer(model), tokenizer(assistant)

    @torch.inference_mode()
    def write(prompt: Prompt, tokens: int) -> Written:
        streamer = _Streamer()
        ids = torch.tensor([prompt.ids])
        oracle.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens + 1,
            streamer=streamer, **options,
        )  # fmt: skip
        return streamer.written

    return write


class _Streamer:
    """What transformers hands its tokens to as they come: first the prompt's, then the new ones."""

    def __init__(self) -> None:
        self.written = Written()
        self._prompt_seen = False

    def put(self, tokens: torch.Tensor) -> None:
        if self._prompt_seen:
            self.written.arrived(tokens.flatten().tolist())
        self._prompt_seen = True

    def end(self) -> None:
        pass
