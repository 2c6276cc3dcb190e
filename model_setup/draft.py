"""A repository's draft: carved from the oracle, or a small sibling of it, and trained to foretell it.

The oracle reads as much of the repository as it can in its share of the time, and its answers are what the
draft learns first of all (see `model_setup.distillation`); from the rest it learns what was written there. An
interrupted run goes on where it was. What comes out takes the place of the older draft only if it foretells
the oracle better on files that neither has learned from.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from engine.config import read_config
from engine.errors import DraftlineError, OutOfMemory
from engine.model_files import read_json, replaced_directory
from engine.placement import Placement, placements
from engine.request import CancelToken
from engine.tokenizer import Tokenizer
from model_setup import store
from model_setup.asking import ask_oracle
from model_setup.carve import read_size
from model_setup.carved_model import carved_model
from model_setup.draft_files import room_for
from model_setup.draft_start import (
    TRAINING,
    Kind,
    find_sibling,
    identity,
    older_self,
    read_training,
)
from model_setup.material import Material, read_material
from model_setup.peers import Peers, gathered
from model_setup.predictions import Answers
from model_setup.recall import Example, Recall
from model_setup.trainable import Trainable
from model_setup.training import Examples, Regime, Report, Trained, half_precision_pays, shared_recall, train
from model_setup.training_state import TrainingState
from model_setup.windows import Window

ASKING = 0.4  # of the time goes into asking the oracle, at most
# Of a carved draft, measured as the losses are in `distillation`, with TEXT 0.3: from 39.0 % among four, 100
# steps at 1e-4 came to 50.1, at 2e-4 to 49.8, at 3e-4 to 49.7. At 1e-3 what was carved was unlearned: the
# first 60 of 300 steps fell from 39.7 to 30.9.
RATES: dict[Kind, float] = {"carved": 2e-4, "sibling": 2e-5}
BATCH = {"cpu": 2, "cuda": 8}  # windows a step

Outcome = Literal["made", "older is better", "unchanged"]


@dataclass(frozen=True)
class DraftReport:
    """What `make_draft` did.

    outcome: a draft was made; the older one foretells better and stays; or nothing has changed since the
    older one was trained, at least as long, so nothing was done. parameters, oracle_parameters: that a pass
    reads. layers: of the draft; tokens: that it can say. asked: windows that the oracle was asked about;
    windows: of the repository. steps, seconds: of training; before: recall of what training began with;
    after: of what came out.
    """

    directory: Path
    outcome: Outcome
    kind: Kind
    device: str
    parameters: int
    oracle_parameters: int
    layers: int
    tokens: int
    asked: int
    windows: int
    processes: int
    steps: int
    seconds: float
    before: Recall
    after: Recall


def make_draft(
    repository: Path,
    oracle: Path,
    directory: Path,
    seconds: float,
    progress: Report | None = None,
    cancel: CancelToken | None = None,
    device: str = "auto",
) -> DraftReport:
    """Train a draft for ``oracle`` on ``repository`` for about ``seconds`` and put it into ``directory``.

    oracle: a model directory. progress: called with what is being done and the fraction of it that is.
    device: auto, cpu or cuda. In processes started by `accelerate launch` all of them train the one draft,
    and each returns the report. What is unfinished is kept beside ``directory``, and so are the oracle's
    answers.

    Raises:
        Cancelled: ``cancel`` was; the same call goes on from there.
        DraftlineError: too little source, a model that cannot be used, or no room; the older draft is
            untouched.
    """
    if not (oracle / "config.json").is_file():
        raise DraftlineError(
            f"{oracle} is not a model directory, from which a draft can be made; fetch it with "
            f"`model-setup fetch --from {oracle}`."
        )
    placement = placements(device, "auto")[0]
    with gathered(placement.device) as peers:
        making = _Making(
            repository,
            oracle,
            directory,
            seconds,
            placement,
            peers,
            progress or _unheard,
            cancel or CancelToken(),
        )
        try:
            with room_for(directory):
                return making.run()
        except torch.OutOfMemoryError as error:
            raise OutOfMemory("The GPU has no room to train a draft: close what else uses it.") from error


def _unheard(_what: str, _fraction: float) -> None:
    pass


class _Making:
    """One call of `make_draft`."""

    def __init__(
        self,
        repository: Path,
        oracle: Path,
        directory: Path,
        seconds: float,
        placement: Placement,
        peers: Peers,
        report: Report,
        cancel: CancelToken,
    ) -> None:
        self._started = time.perf_counter()
        self._oracle = oracle
        self._repository = repository
        self._directory = directory
        self._seconds = seconds
        self._placement = placement
        self._peers = peers
        self._report = report if peers.first else _unheard
        self._cancel = cancel
        self._unfinished = directory.with_name(f"{directory.name}.unfinished")
        self._config = read_config(read_json(oracle / "config.json"), oracle)
        self._identity = identity(oracle)
        self._tokenizer = Tokenizer(oracle / "tokenizer.json")

    def run(self) -> DraftReport:
        material = read_material(self._repository, self._oracle, self._tokenizer)
        windows, held = material.windows, material.held
        key = hashlib.sha256(f"{self._identity} {windows} {held}".encode()).hexdigest()
        older = older_self(self._directory, self._tokenizer)
        said = {} if older is None else read_training(older)
        if said.get("key") == key and said.get("wanted_seconds", 0.0) >= self._seconds:
            return _read_report(self._directory, said)
        folder = self._directory.with_name(f"{self._directory.name}.answers")
        answers = Answers(folder, f"{self._identity} {self._placement.weights}")
        seconds = self._ask(answers, held, windows, key)
        examples = [Example(window, answers.known(window)) for window in windows]
        judged_examples = [Example(window, answers.known(window)) for window in held]
        goes_on = older if said.get("oracle") == self._identity else None
        started = time.perf_counter()
        kind, model = self._model(goes_on, said, material, examples)
        seconds -= time.perf_counter() - started
        device = self._peers.device
        (half,) = self._peers.agree([float(half_precision_pays(device))])
        regime = Regime(seconds, RATES[kind], BATCH[self._placement.device], half=bool(half))
        state = TrainingState(self._unfinished / "training.safetensors", f"{key} {kind} {goes_on is None}")
        trained = train(
            model, Examples(examples), judged_examples, regime, state, self._peers, self._report, self._cancel
        )
        better = older is None or trained.after.better_than(
            shared_recall(Trainable(older).to(device), judged_examples, self._peers, regime.half)
        )
        report = DraftReport(
            directory=self._directory,
            outcome="made" if better else "older is better",
            kind=kind,
            device=self._placement.device,
            parameters=read_size(model.directory).whole,
            oracle_parameters=read_size(self._oracle).whole,
            layers=read_size(model.directory).layers,
            tokens=model.said,
            asked=sum(example.predictions is not None for example in examples),
            windows=len(windows),
            processes=self._peers.count,
            steps=trained.steps,
            seconds=time.perf_counter() - self._started,
            before=trained.before,
            after=trained.after,
        )
        if self._peers.first:
            if better:
                self._write(model, trained, report, key)
            shutil.rmtree(self._unfinished, ignore_errors=True)
        self._peers.wait()
        return report

    def _ask(self, answers: Answers, held: Sequence[Window], windows: Sequence[Window], key: str) -> float:
        """Ask the oracle, and return the seconds that are left for training.

        Once training has begun nothing more is asked, so that an interrupted one goes on with the same.
        """
        note = self._unfinished / "begun.json"
        left = _read_begun(note, key)
        if left is not None and all(answers.known(window) for window in held):
            return left
        peers, limit = self._peers, ASKING * self._seconds
        ask_oracle(
            *(self._oracle, self._placement, answers, held, windows),
            *(limit, peers, self._report, self._cancel),
        )
        (left,) = peers.agree([max(0.0, self._seconds - (time.perf_counter() - self._started))])
        if peers.first:
            self._unfinished.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps({"key": key, "seconds": left}), encoding="utf-8")
        return left

    def _model(
        self,
        older: Path | None,
        said: dict[str, Any],
        material: Material,
        examples: Sequence[Example],
    ) -> tuple[Kind, Trainable]:
        """What is trained. older: an earlier draft of the same oracle; said: how that was made."""
        device = self._peers.device
        if older is not None:
            return said["kind"], Trainable(older).to(device)
        sibling = find_sibling(self._oracle, self._tokenizer)
        if sibling is not None:
            return "sibling", Trainable(sibling).to(device)
        return "carved", carved_model(
            *(self._oracle, self._unfinished / "carved", self._tokenizer),
            *(material.documents, examples, self._peers),
        )

    def _write(self, model: Trainable, trained: Trained, report: DraftReport, key: str) -> None:
        described = {
            **asdict(report),
            "directory": str(report.directory),
            "key": key,
            "oracle": self._identity,
            "oracle_rows": self._config.vocab_size,
            "wanted_seconds": self._seconds,
        }
        with replaced_directory(self._directory) as fresh:
            model.write(fresh, trained.tensors)
            (fresh / TRAINING).write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
            store.write_manifest(fresh, source=f"trained for {self._repository}", source_sha256="")


def _read_begun(note: Path, key: str) -> float | None:
    """The seconds that the training called ``key`` was given, if it had begun."""
    try:
        begun = json.loads(note.read_text(encoding="utf-8"))
        return float(begun["seconds"]) if begun["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _read_report(directory: Path, said: dict[str, Any]) -> DraftReport:
    fields = {name: said[name] for name in DraftReport.__dataclass_fields__}
    recalls = {name: Recall(**said[name]) for name in ("before", "after")}
    return DraftReport(**{**fields, **recalls, "directory": directory, "outcome": "unchanged"})
