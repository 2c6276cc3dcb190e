"""Step times are measured once a day for each machine, model and kind of weights, and kept in a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import load, step_times
from engine import reader as reader_module
from engine.cost_model import StepTimes
from engine.engine import MEASURED_ROWS
from engine.reader import Reader
from tests.engine.tiny_models import load_tiny, write_model

ROWS = (1, 2, 4)
NO_GROWTH = (0.0, 0.0, 0.0)


class CountedReader(Reader):
    """Says how often it was measured, and each time other seconds."""

    measured = 0

    def measure(self, rows, repeats=3) -> StepTimes:
        self.measured += 1
        return StepTimes(tuple(rows), tuple(float(self.measured + row) for row in rows), 256, NO_GROWTH)


@pytest.fixture(autouse=True)
def undisturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever else has the cores just now."""
    monkeypatch.setattr(step_times, "UNDISTURBED", 0.0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def reader(model: Path) -> CountedReader:
    return CountedReader(load_tiny(model), 40)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "step_times.json"


def ask(
    reader: CountedReader, path: Path | None, rows=ROWS, weights: str = "fp32", device: str = "cpu"
) -> StepTimes:
    return step_times.recall_or_measure(reader, rows, weights, device, path, lambda: None)


def test_the_second_start_takes_the_first_one_s_times(reader, path):
    first = ask(reader, path)
    assert ask(reader, path) == first == StepTimes(ROWS, (2.0, 3.0, 5.0), 256, NO_GROWTH)
    assert reader.measured == 1
    assert list(path.parent.iterdir()) == [path]


def test_without_a_path_it_is_measured_every_time(reader, tmp_path):
    assert ask(reader, None) != ask(reader, None)
    assert not list(tmp_path.iterdir())


def test_what_the_times_depend_on_is_measured_apart_and_nothing_is_forgotten(
    reader, path, tmp_path, monkeypatch
):
    wider = CountedReader(load_tiny(write_model(tmp_path / "wider", intermediate_size=101)), 40)
    first = ask(reader, path)
    variants: list[Callable[[], StepTimes]] = [
        lambda: ask(reader, path, rows=(1, 2, 8)),
        lambda: ask(reader, path, weights="int8"),
        lambda: ask(reader, path, device="cuda"),
    ]
    for variant in variants:
        before = reader.measured
        assert variant() == variant()
        assert reader.measured == before + 1
    assert ask(wider, path) == ask(wider, path)
    assert wider.measured == 1
    for place, name, value in (
        (step_times, "processor", lambda: "another"),
        (torch, "get_num_threads", lambda: 97),
        (torch, "__version__", "0.0"),
    ):
        before = reader.measured
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            ask(reader, path)
        assert reader.measured == before + 1
    before = reader.measured
    assert ask(reader, path) == first
    assert reader.measured == before


def test_weights_of_the_same_shape_have_the_same_times(reader, path, tmp_path):
    ask(reader, path)
    tuned = CountedReader(load_tiny(write_model(tmp_path / "tuned", seed=1)), 40)
    ask(tuned, path)
    assert tuned.measured == 0


@pytest.mark.parametrize("age", [step_times.KEPT_SECONDS + 60, -60])
def test_old_times_and_those_from_the_future_are_measured_anew_and_replaced(reader, path, age):
    ask(reader, path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content[0]["measured"] = time.time() - age
    path.write_text(json.dumps(content), encoding="utf-8")
    assert ask(reader, path) == ask(reader, path)
    assert reader.measured == 2
    assert len(json.loads(path.read_text(encoding="utf-8"))) == 1


def changed(**values: Any) -> Callable[[str], str]:
    return lambda text: json.dumps([{**json.loads(text)[0], **values}])


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "{}",
        lambda text: "null",
        lambda text: '[1, null, "x", [], {}]',
        lambda text: "[" * 100_000,
        lambda text: "\x00\x01",
        changed(key=None),
        changed(key={"rows": [1, 2]}),
        changed(measured=None),
        changed(measured=float("nan")),
        changed(seconds=None),
        changed(seconds=[1.0]),
        changed(seconds=[1.0, 0.0, 2.0]),
        changed(seconds=[1.0, float("nan"), 2.0]),
        changed(seconds=["1", "2", "3"]),
        changed(growth=None),
        changed(growth=[0.0]),
        changed(growth=[0.0, -1.0, 0.0]),
        changed(text="256"),
    ],
)
def test_what_is_no_measurement_is_measured_anew_and_replaced(reader, path, damage):
    ask(reader, path)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    again = ask(reader, path)
    assert reader.measured == 2
    assert ask(reader, path) == again
    assert reader.measured == 2


def test_bytes_that_are_no_text_and_a_folder_in_its_place_are_no_error(reader, path):
    path.parent.mkdir()
    path.write_bytes(b"\xff\xfe\xff")
    assert ask(reader, path) == ask(reader, path)
    path.unlink()
    path.mkdir()
    assert ask(reader, path) != ask(reader, path)
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_is_no_error_and_leaves_the_old_file(reader, path, monkeypatch):
    ask(reader, path)
    before = path.read_bytes()

    def refused(*_arguments):
        raise PermissionError("read by another process")

    monkeypatch.setattr(Path, "replace", refused)
    ask(reader, path, weights="int8")
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


BUSY = (0.457, 1.027, 0.197)  # as measured while tests had the cores: eight rows cheaper than one


def test_times_that_cannot_be_true_are_measured_again(reader, path, monkeypatch):
    """What others take of the cores only ever makes a pass longer, so the shortest counts."""
    found = iter([BUSY, (0.031, 0.9, 0.3), (0.5, 0.033, 0.038)])
    monkeypatch.setattr(reader, "measure", lambda rows: StepTimes(tuple(rows), next(found), 256, NO_GROWTH))
    assert ask(reader, path).seconds == (0.031, 0.033, 0.038)
    assert ask(reader, path).seconds == (0.031, 0.033, 0.038)  # from the file: nothing is left to be found


def test_times_of_a_machine_that_stays_busy_are_not_kept(reader, path, monkeypatch):
    monkeypatch.setattr(reader, "measure", lambda rows: StepTimes(tuple(rows), BUSY, 256, NO_GROWTH))
    assert ask(reader, path).seconds == BUSY
    assert not path.exists()


def test_times_measured_while_others_had_the_cores_are_used_but_not_kept(reader, path, monkeypatch):
    monkeypatch.setattr(step_times, "UNDISTURBED", 2.0)
    assert ask(reader, path) != ask(reader, path)
    assert not path.exists()


def test_old_times_are_better_than_such(reader, path, monkeypatch):
    first = ask(reader, path)
    content = json.loads(path.read_text(encoding="utf-8"))
    content[0]["measured"] -= 2 * step_times.KEPT_SECONDS
    path.write_text(json.dumps(content), encoding="utf-8")
    with monkeypatch.context() as busy:
        busy.setattr(step_times, "UNDISTURBED", 2.0)
        assert ask(reader, path) == first
    assert ask(reader, path) != first


def test_a_gpu_s_times_are_kept_whoever_has_the_cores(reader, path, monkeypatch):
    monkeypatch.setattr(step_times, "UNDISTURBED", 2.0)
    assert ask(reader, path, device="cuda") == ask(reader, path, device="cuda")


def test_a_pass_behind_a_long_text_is_measured_as_well(reader, model):
    times = Reader(load_tiny(model), 600).measure(ROWS)
    assert times.text == reader_module.SHORT_TEXT
    assert len(times.growth) == 3
    assert min(times.growth) >= 0
    assert Reader(load_tiny(model), 40).measure(ROWS).growth == ()  # no room for a longer one


def test_an_engine_measures_its_oracle_and_its_draft_once(model, path, tmp_path, monkeypatch):
    monkeypatch.setattr(
        step_times, "_can_be_true", lambda seconds: True
    )  # whoever else has the cores just now
    draft = write_model(tmp_path / "draft", num_hidden_layers=1)
    first = load(model, draft, weights="fp32", step_times=path)
    assert len(json.loads(path.read_text(encoding="utf-8"))) == 2
    monkeypatch.setattr(Reader, "measure", lambda *_: pytest.fail("measured again"))
    again = load(model, draft, weights="fp32", step_times=path)
    assert again.step_times == first.step_times
    assert again.step_times.rows == MEASURED_ROWS
