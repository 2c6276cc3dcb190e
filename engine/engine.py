"""`load` and the Engine: the stages put together, one request at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from engine.checkpoint import WEIGHTS, Checkpoint, Weights, load_checkpoint
from engine.cost_model import StepTimes
from engine.decoding import MOST_GUESSES, decode
from engine.draft2 import Draft2
from engine.errors import DraftlineError
from engine.ngram import NgramTable
from engine.reader import Reader
from engine.request import APPROXIMATIONS, ApproximationName, CancelToken, Cycle, Guessers, SamplingParams
from engine.sampling import Sampler
from engine.stages import Draft, Oracle, Request, Rule, Stage, coupled
from engine.standard import (
    Approximation,
    Experience,
    LookupApproximation,
    ModelApproximation,
    NgramApproximation,
    RandomApproximation,
    SampledChain,
)
from engine.step_times import recall_or_measure

MAX_CONTEXT = 2048  # tokens of prompt and output together: what the cache is allocated for
MEASURED_ROWS = (1, 2, 4, 8, 16, 32)


class Engine:
    """An oracle with the stages below it. Use it from one thread at a time."""

    def __init__(
        self,
        name: str,
        oracle: Checkpoint,
        draft: Checkpoint | None,
        weights: Weights,
        step_times: Path | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = oracle.tokenizer
        self.eos_ids = oracle.eos_ids
        self.device = "cpu"
        self.weights = weights
        self.max_context = min(MAX_CONTEXT, oracle.transformer.config.max_positions)
        self.load_seconds = 0.0
        capacity = self.max_context + MOST_GUESSES + 1
        reader = Reader(oracle.transformer, capacity)
        times = recall_or_measure(reader, MEASURED_ROWS, weights, self.device, step_times)
        self._oracle = Oracle(reader, times)
        self._request: Request | None = None  # the latest, whose text the cache holds
        self._table: NgramTable | None = None
        self._draft: Reader | None = None
        self._draft_times = self.step_times
        if draft is not None:
            self._draft = Reader(draft.transformer, capacity)
            self._draft_times = recall_or_measure(
                self._draft, MEASURED_ROWS, weights, self.device, step_times
            )
        self._guessing = self._chains()
        self._experience = {name: Experience() for name in APPROXIMATIONS}

    @property
    def step_times(self) -> StepTimes:
        """Seconds of the oracle's forward pass by its number of rows, as measured at load."""
        return self._oracle.times

    def use_table(self, table: Path | None) -> None:
        """Guess with the trigram table at ``table`` from the next request on; None: with the lookup alone.

        Raises:
            DraftlineError: the table is damaged or of another tokenizer; the one in use stays.
        """
        self._table = None if table is None else NgramTable(table, self.tokenizer.fingerprint)
        self._guessing = self._chains()

    def _chains(self) -> dict[Guessers, Stage | None]:
        draft2 = Draft2(self._table)
        if self._draft is None:
            return {"all": draft2, "draft": None, "draft2": draft2}
        return {
            "all": Draft(self._draft, self._draft_times, draft2),
            "draft": Draft(self._draft, self._draft_times, None),
            "draft2": Draft2(self._table),
        }

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
        reused. Closing the iterator early is fine; once a later request has begun it cannot go on.

        Raises:
            DraftlineError: an empty prompt, an id outside the vocabulary, more tokens than max_context, or
                an approximation that was not loaded.
            RuntimeError: it was resumed after a later request had begun.
        """
        vocab = self.tokenizer.vocab_size
        if not prompt_ids:
            raise DraftlineError("The prompt is empty: give at least one token.")
        if not all(0 <= token < vocab for token in prompt_ids):
            raise DraftlineError(
                f"The prompt has token ids outside 0 to {vocab - 1}: encode it with this model's tokenizer."
            )
        if len(prompt_ids) + params.max_tokens > self.max_context:
            raise DraftlineError(
                f"The prompt's {len(prompt_ids)} tokens and max_tokens {params.max_tokens} exceed the "
                f"context of {self.max_context}: shorten one of them."
            )
        sampler = Sampler(params.temperature, params.top_k, params.top_p, params.seed)
        context = prompt_ids if context_ids is None else context_ids
        request = Request(prompt_ids, context, sampler, cancel or CancelToken())
        below: Stage | None = None
        rule: Rule = coupled(sampler)
        if params.mode == "staged":
            below = self._guessing[params.guessers]
            if below is None:
                raise DraftlineError(
                    "There is no draft model to guess alone: load one, or choose all or draft2."
                )
        elif params.mode == "standard":
            approximation = self._approximation(params.approximation)
            experience = self._experience[params.approximation]
            chain = SampledChain(approximation, params.gamma, params.lenience, self.step_times, experience)
            below, rule = chain, chain.rule
        self._request = request
        for cycle in decode(self._oracle, below, rule, params.mode == "standard", request, params):
            yield cycle
            if self._request is not request:
                raise RuntimeError("a later request has taken the cache: this one cannot go on")

    def _approximation(self, name: ApproximationName) -> Approximation:
        if name == "draft":
            if self._draft is None:
                raise DraftlineError(
                    "There is no draft model to approximate with: load one, or choose another."
                )
            return ModelApproximation(self._draft)
        if name == "random":
            return RandomApproximation(self.tokenizer.vocab_size)
        if name == "lookup":
            return LookupApproximation(self.tokenizer.vocab_size)
        if self._table is None:
            raise DraftlineError(f"There is no table to take the {name} from: build one with `model-setup`.")
        return NgramApproximation(self._table, {"trigram": 3, "bigram": 2, "unigram": 1}[name])


@torch.inference_mode()
def load(
    oracle: Path | str,
    draft: Path | str | None = None,
    draft2: Path | str | None = None,
    device: str = "auto",
    weights: str = "auto",
    on_progress: Callable[[float], None] | None = None,
    step_times: Path | None = None,
) -> Engine:
    """Load a model and put the stages together.

    oracle: a model directory or a GGUF file. draft: a smaller model that guesses. draft2: a trigram table.
    All three must have the same tokenizer. device: auto or cpu. weights: auto (int8, the fastest on a CPU),
    fp32, bf16 (on processors with AVX-512) or int8. on_progress: called with the fraction done. step_times: a
    file in which the measured step times are kept for the next start; None measures them every time, which
    takes about a second.

    Raises:
        DraftlineError: anything that cannot be loaded, in one sentence.
    """
    started = time.perf_counter()
    if device not in ("auto", "cpu"):
        raise DraftlineError(f"The device {device!r} is not supported yet; use cpu.")
    chosen = next((kind for kind in WEIGHTS if kind == ("int8" if weights == "auto" else weights)), None)
    if chosen is None:
        raise DraftlineError(
            f"There are no weights of kind {weights!r}; choose auto, "
            f"{', '.join(WEIGHTS[:-1])} or {WEIGHTS[-1]}."
        )
    path = Path(oracle)
    checkpoint = load_checkpoint(path, chosen, on_progress)
    if checkpoint.trimmed:
        raise DraftlineError(
            f"The model in {oracle} knows only some of its tokenizer's tokens, which does for a draft but "
            "not for an oracle: choose a whole model."
        )
    guessing = None
    if draft is not None:
        guessing = load_checkpoint(Path(draft), chosen)
        if guessing.tokenizer.fingerprint != checkpoint.tokenizer.fingerprint:
            raise DraftlineError(
                f"The draft in {draft} has another tokenizer than the oracle in {oracle}: take "
                "one of the same family."
            )
    name = path.stem if path.is_file() else path.resolve().name
    engine = Engine(name, checkpoint, guessing, chosen, step_times)
    if draft2 is not None:
        engine.use_table(Path(draft2))
    engine.load_seconds = time.perf_counter() - started
    return engine
