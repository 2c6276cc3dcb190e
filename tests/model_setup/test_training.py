"""A draft learns to foretell its oracle, and an interrupted training goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.errors import DraftlineError
from engine.request import Cancelled, CancelToken
from model_setup import training
from model_setup.carve import carve
from model_setup.distillation import batch_of, loss_of
from model_setup.peers import Peers
from model_setup.recall import Example
from model_setup.trainable import Trainable
from model_setup.training import PATIENCE, Examples, Regime, Trained, train
from model_setup.training_state import TrainingState
from model_setup.translation import translate_head
from tests.engine.tiny_models import TOKENS
from tests.model_setup.toy_oracle import asked_examples, write_oracle

REGIME = Regime(seconds=0, rate=1e-2, batch=2, steps=30, evaluations=6, save_seconds=0)
ALONE = Peers(0, 1, "cpu")
KEPT = [token for token in range(TOKENS) if token % 5]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_oracle(tmp_path_factory.mktemp("models") / "oracle")


@pytest.fixture(scope="module")
def examples(oracle: Path) -> list[Example]:
    return asked_examples(oracle)


@pytest.fixture(scope="module")
def carved(oracle: Path) -> Path:
    carve(oracle, oracle.with_name("carved"), [0], KEPT)
    return oracle.with_name("carved")


def trained(
    carved: Path,
    examples: list[Example],
    state: TrainingState,
    regime: Regime = REGIME,
    report=lambda *_: None,
) -> Trained:
    cancel = CancelToken()
    return train(
        Trainable(carved), Examples(examples[2:]), examples[:2], regime, state, ALONE, report, cancel
    )


@pytest.fixture
def state(tmp_path: Path) -> TrainingState:
    return TrainingState(tmp_path / "state.safetensors", "this training")


def same(ours: Trained, theirs: Trained) -> bool:
    return ours.after == theirs.after and all(
        torch.equal(tensor, theirs.tensors[name]) for name, tensor in ours.tensors.items()
    )


def test_loss_falls_and_the_oracles_token_is_more_often_among_the_first(carved, examples, state):
    losses = []

    def report(what: str, _fraction: float) -> None:
        if "loss" in what:
            losses.append(float(what.rpartition(" ")[2]))

    result = trained(carved, examples, state, report=report)
    assert result.steps == len(losses) == REGIME.steps
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])
    assert result.after.better_than(result.before)


def test_where_the_oracle_was_not_asked_the_text_itself_teaches(carved, examples, state):
    unasked = [replace(example, predictions=None) for example in examples[2:]]
    result = trained(carved, [*examples[:2], *unasked], state)
    assert result.after.better_than(result.before)


@pytest.mark.parametrize("killed_at", [1, 7, 29])
def test_a_killed_training_goes_on_as_if_nothing_had_happened(
    carved, examples, state, tmp_path, monkeypatch, killed_at
):
    monkeypatch.setattr(training, "SAVED_SHARE", 1e9)  # after every step, whatever that costs

    def kill(what: str, _fraction: float) -> None:
        if f"step {killed_at}," in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(carved, examples, state, report=kill)
    steps: list[str] = []
    again = trained(carved, examples, state, report=lambda what, _: steps.append(what))
    assert f"step {killed_at}," in next(what for what in steps if "step" in what)
    assert same(again, trained(carved, examples, TrainingState(tmp_path / "other", "another")))


def test_a_cancelled_training_is_saved(carved, examples, state):
    cancel = CancelToken()
    regime = replace(REGIME, save_seconds=1e9)

    def report(what: str, _fraction: float) -> None:
        if "step 5," in what:
            cancel.cancel()

    with pytest.raises(Cancelled):
        train(Trainable(carved), Examples(examples[2:]), examples[:2], regime, state, ALONE, report, cancel)
    steps: list[str] = []
    trained(carved, examples, state, report=lambda what, _: steps.append(what))
    assert "step 6," in next(what for what in steps if "step" in what)


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"", lambda data: b"?" * len(data)])
def test_a_damaged_state_is_told_and_training_starts_anew(carved, examples, state, tmp_path, damage):
    path = tmp_path / "state.safetensors"
    short = replace(REGIME, steps=3)
    whole = trained(carved, examples, state, short)
    path.write_bytes(damage(path.read_bytes()))
    told: list[str] = []
    assert same(trained(carved, examples, state, short, lambda what, _: told.append(what)), whole)
    assert [what for what in told if "damaged" in what] == [told[0]]
    assert told[0].endswith(".")


def test_another_trainings_state_is_not_gone_on_from(carved, examples, state, tmp_path):
    trained(carved, examples, state, replace(REGIME, steps=3))
    other = TrainingState(tmp_path / "state.safetensors", "another training")
    told: list[str] = []
    trained(carved, examples, other, replace(REGIME, steps=3), lambda what, _: told.append(what))
    assert "at the start" in told[0]


def test_without_room_for_the_state_one_sentence_says_so(carved, examples, state, monkeypatch):
    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("model_setup.draft_files.save_file", full)
    with pytest.raises(DraftlineError, match=r"^[^\n]*free some space[^\n]*\.$"):
        trained(carved, examples, state)


def test_training_that_gains_nothing_ends_early_and_keeps_what_was_best(carved, examples, state):
    harmful = replace(REGIME, rate=0.0, evaluations=30)
    result = trained(carved, examples, state, harmful)
    assert result.steps <= PATIENCE + 1
    assert result.after == result.before
    assert all(
        torch.equal(tensor, Trainable(carved).tensors()[name]) for name, tensor in result.tensors.items()
    )


def test_the_head_is_told_what_the_last_layer_would_have_said(carved, examples, state):
    plain, translated = Trainable(carved), Trainable(carved)
    translate_head(translated, examples[2:], "cpu")
    losses = []
    for model in (plain, translated):
        with torch.no_grad():
            losses.append(loss_of(model, model(*batch_of(examples[:2])), examples[:2]).item())
    assert losses[1] < losses[0]


def test_all_examples_come_once_before_any_comes_again(examples):
    unasked = [replace(example, predictions=None) for example in examples]
    order = Examples([*examples, *unasked])
    count = len(examples)
    taken = [order.at(place, seed=3) for place in range(4 * count)]
    for part in (taken[0 : 2 * count : 2], taken[1 : 2 * count : 2], taken[2 * count :: 2]):
        assert len({example.window for example in part}) == count
    assert taken[0].predictions is not None
    assert taken[1].predictions is None
    assert taken[: 2 * count] != taken[2 * count :]
