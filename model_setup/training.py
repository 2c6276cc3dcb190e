"""Training a draft: AdamW on windows of the repository, looked at now and then on files that are held out."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.optim import AdamW

from engine import placement
from engine.request import Cancelled, CancelToken
from model_setup.distillation import batch_of, loss_of
from model_setup.peers import Peers
from model_setup.recall import WIDTH, Example, Recall
from model_setup.trainable import Trainable
from model_setup.training_state import Progress, TrainingState

WARM_UP = 20  # steps
DECAY = 0.01  # of weights, as AdamW takes it
LONGEST_GRADIENT = 1.0
PATIENCE = 5  # evaluations without a better one, after which nothing more is hoped for
SAVED_SHARE = 0.05  # of the time goes into saving, at most

Report = Callable[[str, float], None]
"""Called with what is being done and the fraction of it that is."""


@dataclass(frozen=True)
class Regime:
    """How to train. seconds: at most; steps: this many instead, whatever time they take. rate: of learning,
    at its highest. batch: windows a step, in each process. evaluations: over the whole training. seed: of the
    order of the windows. half: whether products are taken in bfloat16."""

    seconds: float
    rate: float
    batch: int
    steps: int | None = None
    evaluations: int = 10
    save_seconds: float = 60.0
    seed: int = 0
    half: bool = False


@dataclass(frozen=True)
class Trained:
    """tensors: the weights of the best evaluation, as `Trainable.tensors`. before, after: recall on what is
    held out. steps, seconds: what training took."""

    tensors: dict[str, Tensor]
    before: Recall
    after: Recall
    steps: int
    seconds: float


def train(
    model: Trainable,
    examples: Examples,
    held_out: Sequence[Example],
    regime: Regime,
    state: TrainingState,
    peers: Peers,
    report: Report,
    cancel: CancelToken,
) -> Trained:
    """Train ``model`` on ``examples``, from where ``state`` stands.

    held_out: examples with predictions, on which recall is measured.

    Raises:
        Cancelled: it was; what was done is saved.
        DraftlineError: there is no room for the state.
    """
    parameters = list(model.model.parameters())
    optimizer = AdamW(parameters, lr=regime.rate, weight_decay=DECAY)
    joined = peers.joined(model)

    def recall() -> Recall:
        return shared_recall(model, held_out, peers, regime.half)

    progress, best = _start(model, optimizer, state, recall, report)
    started = saved = time.perf_counter()
    before = progress.seconds
    save_every = regime.save_seconds
    while True:
        fraction, stop = peers.agree([_fraction(progress, regime), float(cancel.cancelled)])
        if stop:
            if peers.first and progress.step:
                state.save(model, optimizer, best, progress)
            raise Cancelled
        if fraction * regime.evaluations >= progress.looks + 1:
            found = recall()
            progress.looks = int(fraction * regime.evaluations)
            progress.stale += 1
            if found.better_than(progress.best):
                progress.best, progress.stale, best = found, 0, model.tensors()
            report(f"Training the draft: {found}", min(fraction, 1.0))
        if fraction >= 1 or progress.stale >= PATIENCE:
            break
        loss = _step(joined, model, optimizer, examples, regime, progress, fraction, peers)
        progress.step += 1
        progress.seconds = before + time.perf_counter() - started
        report(f"Training the draft: step {progress.step}, loss {loss:.2f}", fraction)
        now = time.perf_counter()
        if peers.first and now - saved >= save_every:
            state.save(model, optimizer, best, progress)
            saved = time.perf_counter()
            save_every = max(regime.save_seconds, (saved - now) / SAVED_SHARE)
    return Trained(best, progress.before, progress.best, progress.step, progress.seconds)


@torch.no_grad()
def shared_recall(model: Trainable, examples: Sequence[Example], peers: Peers, half: bool) -> Recall:
    """The recall of ``model`` on ``examples``, of which each process looks at its share. half: as in
    `Regime`."""
    model.eval()
    with _precision(model, half):
        found = Recall.of(guesses_and_truth(model, peers.share(examples), peers.device))
    model.train()
    first, among, places = peers.total([found.top1 * found.places, found.top4 * found.places, found.places])
    return Recall(first / max(1, places), among / max(1, places), int(places))


def guesses_and_truth(
    model: Trainable, examples: Sequence[Example], device: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """For each example that the oracle was asked about: at each of its n judged places the first WIDTH that
    ``model`` would say, [n, WIDTH], and the oracle's greedy token, [n]."""
    for example in examples:
        if example.predictions is None:
            continue
        tokens, seen = (tensor.to(device) for tensor in batch_of([example]))
        judged = example.window.judged
        guesses = model.best(model(tokens, seen)[0, judged:], WIDTH)
        yield guesses.cpu(), example.predictions.ids[judged:, 0].long()


def _start(
    model: Trainable, optimizer: AdamW, state: TrainingState, recall: Callable[[], Recall], report: Report
) -> tuple[Progress, dict[str, Tensor]]:
    try:
        restored = state.restore(model, optimizer)
    except ValueError:
        report("What an earlier run had saved of its training is damaged, so it starts anew.", 0.0)
        restored = None
    if restored is not None:
        return restored
    found = recall()
    report(f"Training the draft: {found} at the start", 0.0)
    return Progress(0, 0.0, found, found), model.tensors()


def _fraction(progress: Progress, regime: Regime) -> float:
    if regime.steps is not None:
        return progress.step / regime.steps
    return progress.seconds / regime.seconds if regime.seconds > 0 else 1.0


def _step(
    joined: nn.Module,
    model: Trainable,
    optimizer: AdamW,
    examples: Examples,
    regime: Regime,
    progress: Progress,
    fraction: float,
    peers: Peers,
) -> float:
    """One step of all processes; returns this one's loss."""
    for group in optimizer.param_groups:
        group["lr"] = regime.rate * min(1.0, (progress.step + 1) / WARM_UP) * max(0.0, 1 - fraction)
    size = regime.batch * peers.count
    batch = [
        examples.at(place, regime.seed) for place in range(progress.step * size, (progress.step + 1) * size)
    ]
    batch = list(peers.share(batch))
    tokens, seen = (tensor.to(peers.device) for tensor in batch_of(batch))
    with _precision(model, regime.half):
        scores = joined(tokens, seen)
    loss = loss_of(model, scores, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(model.model.parameters(), LONGEST_GRADIENT)
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


class Examples:
    """What is trained on, in the order it is taken: of those with the oracle's answers and those without by
    turns.

    Of each kind all come once, in random order, then all again in another.
    """

    def __init__(self, examples: Sequence[Example]) -> None:
        with_answers = [example for example in examples if example.predictions is not None]
        without = [example for example in examples if example.predictions is None]
        self._kinds = [kind for kind in (with_answers, without) if kind]

    def at(self, place: int, seed: int) -> Example:
        turn, kind = divmod(place, len(self._kinds))
        epoch, number = divmod(turn, len(self._kinds[kind]))
        return self._kinds[kind][_order(len(self._kinds[kind]), seed + epoch)[number]]


@lru_cache(maxsize=4)
def _order(count: int, seed: int) -> list[int]:
    order: list[int] = torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()
    return order


def _precision(model: Trainable, half: bool) -> contextlib.AbstractContextManager[None]:
    device = next(model.parameters()).device.type
    return torch.autocast(device, torch.bfloat16, enabled=half)


def half_precision_pays(device: str) -> bool:
    """Whether products in bfloat16 are faster there: on GPUs from Ampere on, and on processors that have
    them."""
    if device != "cpu":
        return placement.half() is torch.bfloat16
    times = []
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.ones(256, 512, dtype=dtype), torch.ones(512, 1024, dtype=dtype)
        seconds = []
        for _ in range(3):
            started = time.perf_counter()
            x @ weight
            seconds.append(time.perf_counter() - started)
        times.append(min(seconds))
    return times[1] < times[0]
