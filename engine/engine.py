"""`load` and the Engine: the stages put together, one request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from engine.checkpoint import WEIGHTS, Weights, load_checkpoint
from engine.decoding import MOST_GUESSES, decode
from engine.errors import DraftlineError
from engine.ngram import NgramTable
from engine.request import CancelToken, Cycle, SamplingParams
from engine.stages import Draft2, Oracle
from engine.tokenizer import Tokenizer
from engine.transformer import Transformer

MAX_CONTEXT = 2048  # tokens of prompt and output together: what the cache is allocated for
MEASURED_ROWS = (1, 2, 4, 8, 16, 32)


class Engine:
    """An oracle with the stages below it. Use it from one thread at a time."""

    def __init__(
        self,
        name: str,
        transformer: Transformer,
        tokenizer: Tokenizer,
        eos_ids: tuple[int, ...],
        weights: Weights,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.eos_ids = eos_ids
        self.device = "cpu"
        self.weights = weights
        self.max_context = min(MAX_CONTEXT, transformer.config.max_positions)
        self.load_seconds = 0.0
        self._oracle = Oracle(transformer, self.max_context + MOST_GUESSES + 1)
        self._draft2 = Draft2(None)
        self.step_times = self._oracle.measure(MEASURED_ROWS)

    def use_table(self, table: Path | None) -> None:
        """Guess with the trigram table at ``table`` from the next request on; None: with the lookup alone.

        Raises:
            DraftlineError: the table is damaged or of another tokenizer; the one in use stays.
        """
        self._draft2 = Draft2(None if table is None else NgramTable(table, self.tokenizer.fingerprint))

    @torch.inference_mode()
    def generate(
        self,
        prompt_ids: Sequence[int],
        params: SamplingParams,
        cancel: CancelToken | None = None,
        context_ids: Sequence[int] | None = None,
    ) -> Iterator[Cycle]:
        """Decode what follows ``prompt_ids``, cycle by cycle.

        context_ids: what the guesses go by, ending in the text that the new tokens continue; by default
        the prompt. In a fill-in-the-middle prompt that is the prefix, not the prompt's end. It changes
        the speed, never the text. The keys and values of a prompt that begins as the one before did are
        reused. Closing the iterator early is fine.

        Raises:
            DraftlineError: an empty prompt, an id outside the vocabulary, a negative max_tokens, or more
                tokens than max_context.
        """
        vocab = self.tokenizer.vocab_size
        if not prompt_ids:
            raise DraftlineError("The prompt is empty: give at least one token.")
        if not all(0 <= token < vocab for token in prompt_ids):
            raise DraftlineError(
                f"The prompt has token ids outside 0 to {vocab - 1}: encode it with this model's tokenizer."
            )
        if params.max_tokens < 0:
            raise DraftlineError(f"max_tokens is {params.max_tokens}; it must be 0 or more.")
        if len(prompt_ids) + params.max_tokens > self.max_context:
            raise DraftlineError(
                f"The prompt's {len(prompt_ids)} tokens and max_tokens {params.max_tokens} exceed the "
                f"context of {self.max_context}: shorten one of them."
            )
        yield from decode(
            self._oracle,
            self._draft2,
            self.step_times,
            prompt_ids,
            prompt_ids if context_ids is None else context_ids,
            params,
            cancel or CancelToken(),
        )


@torch.inference_mode()
def load(
    oracle: Path | str,
    draft2: Path | str | None = None,
    device: str = "auto",
    weights: str = "auto",
    on_progress: Callable[[float], None] | None = None,
) -> Engine:
    """Load a model and put the stages together.

    oracle: a model directory or a GGUF file. draft2: a trigram table of the same tokenizer. device:
    auto or cpu. weights: auto (int8, the fastest on a CPU), fp32 or int8. on_progress: called with the
    fraction done.

    Raises:
        DraftlineError: anything that cannot be loaded, in one sentence.
    """
    started = time.perf_counter()
    if device not in ("auto", "cpu"):
        raise DraftlineError(f"The device {device!r} is not supported yet; use cpu.")
    chosen = next((kind for kind in WEIGHTS if kind == ("int8" if weights == "auto" else weights)), None)
    if chosen is None:
        raise DraftlineError(
            f"There are no weights of kind {weights!r}; choose auto, {' or '.join(WEIGHTS)}."
        )
    path = Path(oracle)
    checkpoint = load_checkpoint(path, chosen, on_progress)
    engine = Engine(
        path.stem if path.is_file() else path.resolve().name,
        checkpoint.transformer,
        checkpoint.tokenizer,
        checkpoint.eos_ids,
        chosen,
    )
    if draft2 is not None:
        engine.use_table(Path(draft2))
    engine.load_seconds = time.perf_counter() - started
    return engine
