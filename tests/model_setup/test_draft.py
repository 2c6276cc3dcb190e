"""A repository's draft: made from the oracle, taken up again, and replaced only by a better one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from engine import DraftlineError, SamplingParams, load
from engine.request import Cancelled, CancelToken
from model_setup import asking, store, training
from model_setup import draft as making
from model_setup.draft import make_draft
from model_setup.recall import Recall
from tests.engine.tiny_models import SPECIAL, write_tokenizer
from tests.model_setup.toy_oracle import write_oracle, write_repository


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_oracle(tmp_path_factory.mktemp("models") / "oracle")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return write_repository(tmp_path / "repository")


@pytest.fixture(autouse=True)
def _clock_and_general_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a hundredth with every look, so that a run does the same on any machine."""
    now = 0.0

    def look() -> float:
        nonlocal now
        now += 0.01
        return now

    for module in (asking, making, training):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=look))
    monkeypatch.setattr("model_setup.trigram.general_texts", lambda: iter(["for name in names:\n    pass\n"]))
    monkeypatch.setattr(making, "half_precision_pays", lambda _device: False)
    monkeypatch.setitem(making.RATES, "carved", 1e-3)  # a tiny model learns little in a few small steps


def make(repository: Path, oracle: Path, seconds: float = 1.2, **options):
    return make_draft(repository, oracle, repository.parent / "draft", seconds, **options)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def refusal(repository: Path, oracle: Path, **options) -> str:
    with pytest.raises(DraftlineError) as raised:
        make(repository, oracle, **options)
    message = str(raised.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def test_it_foretells_the_oracle_better_than_before_and_the_engine_guesses_with_it(repository, oracle):
    report = make(repository, oracle)
    assert (report.outcome, report.kind, report.device) == ("made", "carved", "cpu")
    assert report.after.better_than(report.before)
    assert report.steps > 0
    assert 0 < report.asked <= report.windows
    assert report.parameters < report.oracle_parameters
    assert store.read_manifest(report.directory)
    assert sorted(path.name for path in repository.parent.iterdir() if "draft" in path.name) == [
        "draft",
        "draft.answers",
        "draftline-home",
    ]
    engine = load(oracle, draft=report.directory, weights="fp32")
    texts = {
        mode: [t for c in engine.generate([7, 8, 9], SamplingParams(24, mode=mode)) for t in c.tokens]
        for mode in ("plain", "staged")
    }
    assert texts["plain"] == texts["staged"]


def test_the_time_that_carving_takes_is_no_more_there_for_training(repository, oracle, monkeypatch):
    quick = make(repository, oracle).steps
    shutil.rmtree(repository.parent / "draft")
    carve = making.carved_model

    def slow(*arguments):
        for _ in range(30):
            making.time.perf_counter()
        return carve(*arguments)

    monkeypatch.setattr(making, "carved_model", slow)
    assert 0 < make(repository, oracle).steps < quick


def test_of_the_same_text_nothing_is_made_twice(repository, oracle):
    report = make(repository, oracle)
    before = contents(report.directory)
    again = make(repository, oracle)
    assert again.outcome == "unchanged"
    assert (again.before, again.after, again.steps) == (report.before, report.after, report.steps)
    assert contents(report.directory) == before


def test_after_an_edit_the_older_draft_learns_on_from_where_it_was(repository, oracle):
    first = make(repository, oracle)
    with (repository / "board1.py").open("a", encoding="utf-8") as file:
        file.write("def clear(canvas):\n    canvas.draw(0)\n" * 3)
    report = make(repository, oracle)
    assert report.before.top4 > (first.before.top4 + first.after.top4) / 2
    assert report.outcome in ("made", "older is better")
    assert store.read_manifest(report.directory)


def test_a_draft_that_foretells_no_better_does_not_replace_the_older_one(repository, oracle, monkeypatch):
    before = contents(make(repository, oracle).directory)
    real = making.train

    def worse(*arguments):
        trained = real(*arguments)
        for tensor in trained.tensors.values():
            if tensor.is_floating_point():
                tensor.zero_()
        return training.Trained(trained.tensors, trained.before, Recall(0.0, 0.0, 9), trained.steps, 1.0)

    monkeypatch.setattr(making, "train", worse)
    (repository / "new.py").write_text("def new(canvas):\n    return canvas\n" * 5, encoding="utf-8")
    report = make(repository, oracle)
    assert report.outcome == "older is better"
    assert contents(report.directory) == before


def test_a_draft_of_another_oracle_is_beaten_before_it_is_replaced(repository, oracle, tmp_path, monkeypatch):
    make(repository, oracle)
    monkeypatch.setattr(making, "identity", lambda _model: "other weights")
    report = make(repository, oracle)
    assert report.kind == "carved"
    assert report.outcome in ("made", "older is better")
    assert report.before.top4 < report.after.top4


def test_an_interrupted_run_goes_on_and_leaves_the_older_draft_meanwhile(repository, oracle):
    before = contents(make(repository, oracle).directory)
    (repository / "new.py").write_text("def new(canvas):\n    return canvas\n" * 5, encoding="utf-8")
    cancel = CancelToken()

    def stop(what: str, _fraction: float) -> None:
        if "step 3," in what:
            cancel.cancel()

    with pytest.raises(Cancelled):
        make(repository, oracle, progress=stop, cancel=cancel)
    assert contents(repository.parent / "draft") == before
    told: list[str] = []
    make(repository, oracle, progress=lambda what, _: told.append(what))
    assert "step 4," in next(what for what in told if "step" in what)
    assert not any("Asking" in what for what in told)


def test_a_small_model_of_the_family_is_taken_instead_of_carving(repository, oracle, tmp_path, monkeypatch):
    sibling = tmp_path / "sibling"
    shutil.copytree(oracle, sibling)
    monkeypatch.setattr(making, "find_sibling", lambda *_: sibling)
    report = make(repository, oracle)
    assert (report.kind, report.outcome, report.tokens) == ("sibling", "made", 260)
    assert report.after.top1 > 0.95


def test_a_draft_of_another_tokenizer_is_not_learned_on_from(repository, oracle):
    report = make(repository, oracle)
    special = [*SPECIAL[:-1], "<|other|>"]
    write_tokenizer(report.directory / "tokenizer.json", special)
    again = make(repository, oracle)
    assert (again.kind, again.outcome) == ("carved", "made")


def test_an_empty_repository_is_refused(oracle, tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no source files" in refusal(tmp_path / "empty", oracle)


def test_a_repository_of_a_few_words_is_refused(oracle, tmp_path):
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "one.py").write_text("one = 1\n", encoding="utf-8")
    assert "too little source" in refusal(tmp_path / "small", oracle)
    assert not (tmp_path / "draft").exists()


def test_a_gguf_file_is_no_model_to_carve_from(repository, tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert "model-setup fetch --from" in refusal(repository, tmp_path / "model.gguf")


def test_a_full_disk_is_told_and_the_older_draft_stays(repository, oracle, monkeypatch):
    before = contents(make(repository, oracle).directory)
    (repository / "new.py").write_text("def new(canvas):\n    return canvas\n" * 5, encoding="utf-8")

    def full(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("model_setup.draft_files.save_file", full)
    assert "free some space" in refusal(repository, oracle)
    monkeypatch.undo()
    assert contents(repository.parent / "draft") == before
