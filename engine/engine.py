"""`load` and the Engine: the stages put together, one request at a time."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import torch

from engine.checkpoint import Checkpoint, load_checkpoint
from engine.cost_model import StepTimes
from engine.decoding import MOST_GUESSES, decode
from engine.device_reader import DeviceReader
from engine.draft2 import Draft2
from engine.errors import DraftlineError, OutOfMemory
from engine.healing import Healing, TokenIndex
from engine.kept import Kept
from engine.ngram import NgramTable
from engine.placement import Placement, is_out_of_memory, placements
from engine.process_memory import Settling
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
from engine.tokenizer import Tokenizer

MAX_CONTEXT = 2048  # tokens of prompt and output together: what the cache is allocated for
MEASURED_ROWS = (1, 2, 4, 8, 16, 32)
_MOST_TABLES, _MOST_DRAFTS = 16, 2  # kept open for `guess_with`

Chains = dict[Guessers, Stage | None]


class Engine:
    """An oracle with the stages below it. Use it from one thread at a time."""

    displaced = 0  # nobody else uses it

    def __init__(
        self,
        name: str,
        oracle: Checkpoint,
        draft: Checkpoint | None,
        placement: Placement,
        step_times: Path | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = oracle.tokenizer
        self.eos_ids = oracle.eos_ids
        self.device = placement.device
        self.weights = placement.weights
        self._memory = placement.memory
        self.notice = ""
        self.max_context = min(MAX_CONTEXT, oracle.transformer.config.max_positions)
        self.load_seconds = 0.0
        capacity = self.max_context + MOST_GUESSES + 1
        self._settling = Settling()
        settled = self.settle
        reader, times = _read_with(oracle, placement, capacity, step_times, settled)
        self._oracle = Oracle(reader, times)
        self._request: Request | None = None  # the latest, whose text the cache holds
        self._table: NgramTable | None = None
        self._draft: Reader | None = None
        self._draft_times = self.step_times
        if draft is not None:
            self._draft, self._draft_times = _read_with(draft, placement, capacity, step_times, settled)
        self._guessing = self._chains()
        self._tables = Kept(lambda path: NgramTable(path, self.tokenizer.fingerprint), _MOST_TABLES)
        self._drafts = Kept(
            lambda path: _read_with(
                _load_draft(path, self.tokenizer, name, placement), placement, capacity, step_times, settled
            ),
            _MOST_DRAFTS,
        )
        self._known_chains: dict[tuple[object, object], Chains] = {}
        self._experience = {name: Experience() for name in APPROXIMATIONS}

    def settle(self) -> None:
        """Do now what may make decoding faster and is put off until nobody decodes: for measurements."""
        self._settling.finish()

    @property
    def step_times(self) -> StepTimes:
        """Seconds of the oracle's forward pass by its number of rows, as measured at load."""
        return self._oracle.times

    @property
    def reading_seconds(self) -> float:
        """What a token of a prompt takes to read, by the most rows that were measured at load.

        With more rows each takes about as long on a CPU, and less on a GPU.
        """
        return self.step_times(MEASURED_ROWS[-1]) / MEASURED_ROWS[-1]

    @cached_property
    def _token_index(self) -> TokenIndex:
        return TokenIndex(self.tokenizer.token_bytes())

    def use_table(self, table: Path | None) -> None:
        """Guess with the trigram table at ``table`` from the next request on; None: with the lookup alone.

        Raises:
            DraftlineError: the table is damaged or of another tokenizer; the one in use stays.
        """
        self._table = None if table is None else NgramTable(table, self.tokenizer.fingerprint)
        self._guessing = self._chains()

    def with_table(self, table: Path | None) -> Engine:
        """Another engine on the same models and memory, which guesses with ``table`` and has yet to learn.

        Only one of those that share a memory can decode at a time.

        Raises:
            DraftlineError: the table is damaged or of another tokenizer.
        """
        other = copy.copy(self)
        other._experience = {name: Experience() for name in APPROXIMATIONS}
        other.use_table(table)
        return other

    @torch.inference_mode()
    def guess_with(self, draft: Path | None, tables: Sequence[Path]) -> None:
        """Guess with this draft and the first of these tables that can be used, from the next request on.

        Made to be called before each request: what was opened before is kept, with what was learned about
        its guesses, and opened anew where it has changed on disk. What cannot be used is left out, and the
        log says why: without it we are only slower.
        """
        found = None if draft is None else self._drafts.get(draft)
        self._draft, self._draft_times = found or (None, self.step_times)
        self._table = next((table for table in map(self._tables.get, tables) if table is not None), None)
        pair = found, self._table
        if pair not in self._known_chains:
            self._known_chains = {
                known: chains
                for known, chains in self._known_chains.items()
                if (known[0] is None or self._drafts.holds(known[0]))
                and (known[1] is None or self._tables.holds(known[1]))
            }
            self._known_chains[pair] = self._chains()
        self._guessing = self._known_chains[pair]

    def _chains(self) -> Chains:
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
        begins_with: str = "",
    ) -> Iterator[Cycle]:
        """Decode what follows ``prompt_ids``, cycle by cycle.

        context_ids: what the guesses go by, ending in the text that the new tokens continue; by default
        the prompt. In a fill-in-the-middle prompt that is the prefix, not the prompt's end. It changes
        the speed, never the text. The keys and values of a prompt that begins as the one before did are
        reused. Closing the iterator early is fine; once a later request has begun it cannot go on.

        begins_with: the characters that the new text must begin with, whatever their tokens: what was
        taken from the prompt's end because it may be half a token (see `engine.healing`). They are part
        of what is emitted. A vocabulary that cannot write them goes its own way.

        Raises:
            DraftlineError: an empty prompt, an id outside the vocabulary, more tokens than max_context, or
                an approximation that was not loaded.
            OutOfMemory: others have taken the memory meanwhile.
            RuntimeError: it was resumed after a later request had begun.
        """
        vocab = self.tokenizer.vocab_size
        if not prompt_ids:
            raise DraftlineError("The prompt is empty: give at least one token.")
        context = prompt_ids if context_ids is None else context_ids
        for name, ids in (("prompt", prompt_ids), ("context", context)):
            if ids and not 0 <= min(ids) <= max(ids) < vocab:
                raise DraftlineError(
                    f"The {name} has token ids outside 0 to {vocab - 1}: encode it with this model's "
                    "tokenizer."
                )
        if len(prompt_ids) + params.max_tokens > self.max_context:
            raise DraftlineError(
                f"The prompt's {len(prompt_ids)} tokens and max_tokens {params.max_tokens} exceed the "
                f"context of {self.max_context}: shorten one of them."
            )
        sampler = Sampler(params.temperature, params.top_k, params.top_p, params.seed)
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
            chain = SampledChain(approximation, params.gamma, params.lenience, experience)
            below, rule = chain, chain.rule
        if begins_with:
            rule = Healing(rule, sampler, self._token_index, begins_with)
        self._request = request
        try:
            with self._settling.put_off():
                for cycle in decode(self._oracle, below, rule, params.mode == "standard", request, params):
                    yield cycle
                    if self._request is not request:
                        raise RuntimeError("a later request has taken the cache: this one cannot go on")
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            remedy = "a smaller model" if self.device == "cpu" else "the device cpu"
            raise OutOfMemory(
                f"There is no room left in {self._memory}: close what else uses it, or choose {remedy}."
            ) from error

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


def _read_with(
    checkpoint: Checkpoint,
    placement: Placement,
    capacity: int,
    step_times: Path | None,
    settled: Callable[[], None],
) -> tuple[Reader, StepTimes]:
    if placement.device == "cpu":
        reader = Reader(checkpoint.transformer, capacity)
    else:
        reader = DeviceReader(checkpoint.transformer, capacity, placement.cache_dtype, graphs=True)
    times = recall_or_measure(reader, MEASURED_ROWS, placement.weights, placement.device, step_times, settled)
    return reader, times


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
    All three must have the same tokenizer. device: auto, cpu or cuda; weights: auto, fp32, bf16, fp16 or int8
    (see `engine.placement`). Where the first choice has no room, the next is taken and ``notice`` of the
    engine says so. on_progress: called with the fraction done. step_times: a file in which the measured step
    times are kept for the next start; None measures them every time, which takes about a second.

    Raises:
        DraftlineError: anything that cannot be loaded, in one sentence.
    """
    started = time.perf_counter()
    tried = placements(device, weights)
    for placement in tried:
        try:
            engine = _load(Path(oracle), draft, placement, on_progress, step_times)
        except Exception as error:
            if not (isinstance(error, OutOfMemory) or is_out_of_memory(error)):
                raise
            if placement is tried[-1]:
                raise OutOfMemory(
                    f"The model in {oracle} has no room in {placement.memory} with "
                    f"{placement.weights} weights: close what else uses it, or choose a smaller model."
                ) from error
            torch.cuda.empty_cache()
        else:
            break
    if placement is not tried[0]:
        engine.notice = (
            f"There is no room in {tried[0].memory} for {engine.name} with {tried[0].weights} weights; it "
            f"runs on {placement.device} with {placement.weights} weights."
        )
    if draft2 is not None:
        engine.use_table(Path(draft2))
    engine.load_seconds = time.perf_counter() - started
    return engine


def _load(
    oracle: Path,
    draft: Path | str | None,
    placement: Placement,
    on_progress: Callable[[float], None] | None,
    step_times: Path | None,
) -> Engine:
    checkpoint = load_checkpoint(oracle, placement.weights, on_progress, placement.device)
    if checkpoint.trimmed:
        raise DraftlineError(
            f"The model in {oracle} knows only some of its tokenizer's tokens, which does for a draft but "
            "not for an oracle: choose a whole model."
        )
    guessing = None
    if draft is not None:
        guessing = _load_draft(Path(draft), checkpoint.tokenizer, str(oracle), placement)
    name = oracle.stem if oracle.is_file() else oracle.resolve().name
    return Engine(name, checkpoint, guessing, placement, step_times)


def _load_draft(draft: Path, tokenizer: Tokenizer, oracle: str, placement: Placement) -> Checkpoint:
    guessing = load_checkpoint(draft, placement.weights, device=placement.device)
    if guessing.tokenizer.fingerprint != tokenizer.fingerprint:
        raise DraftlineError(
            f"The draft in {draft} has another tokenizer than the oracle in {oracle}: take "
            "one of the same family."
        )
    return guessing
