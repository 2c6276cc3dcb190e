"""A model goes on from pieces of the repository until there are enough tokens, or time is up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.checkpoint import load_checkpoint
from engine.errors import DraftlineError
from engine.generation import sample_texts
from engine.reader import Reader
from engine.sampling import Sampler
from engine.tokenizer import Tokenizer
from model_setup import writing
from model_setup.generated_texts import GeneratedTexts
from model_setup.writing import LENGTH, START, TEMPERATURE, generate_texts, starts_of
from tests.engine.tiny_models import change_config, write_model

STARTS = [[i, i + 1] for i in range(5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "SIDE_BY_SIDE", 3)
    monkeypatch.setattr(writing, "LENGTH", 6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "written"


def generate(model: Path, path: Path, tokens: int, starts=STARTS, **options) -> int:
    return generate_texts(model, fingerprint(model), starts, path, tokens, **options)


def fingerprint(model: Path) -> str:
    return Tokenizer(model / "tokenizer.json").fingerprint


def written(model: Path, path: Path) -> list[list[int]]:
    return [text.tolist() for _, text in GeneratedTexts(path, fingerprint(model))]


def test_texts_go_on_from_each_start_in_turn_at_temperature_1_5_each_with_its_own_noise(model, path):
    generate(model, path, 40)
    checkpoint = load_checkpoint(model, "int8")
    texts = written(model, path)
    alone = [
        sample_texts(
            Reader(checkpoint.transformer, START + LENGTH),
            [STARTS[number % 5]],
            6,
            Sampler(TEMPERATURE),
            checkpoint.eos_ids,
            first=number,
        )[0]
        for number in range(len(texts))
    ]
    assert TEMPERATURE == 1.5
    assert texts == alone
    assert texts[0] != texts[5]


def test_it_stops_with_the_round_in_which_there_are_enough(model, tmp_path):
    for tokens in (1, 18, 19):
        path = tmp_path / f"{tokens}"
        done = generate(model, path, tokens)
        texts = written(model, path)
        assert done == sum(map(len, texts)) >= tokens
        assert sum(map(len, texts[:-3])) < tokens
    assert generate(model, tmp_path / "none", 0) == generate(model, tmp_path / "none", 5, starts=[]) == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("tokens", [18, 40])
def test_a_run_that_is_stopped_and_goes_on_writes_what_one_run_would_have_written(
    model, tmp_path, tokens, monkeypatch
):
    generate(model, tmp_path / "at once", 80)
    path = tmp_path / "in two"
    generate(model, path, tokens)
    assert generate(model, path, 80) == sum(map(len, written(model, path)))
    assert written(model, path) == written(model, tmp_path / "at once")
    monkeypatch.setattr(writing, "load_checkpoint", lambda *_, **__: pytest.fail("nothing is missing"))
    generate(model, path, 80)


def test_a_run_that_is_killed_loses_no_batch_that_was_reported(model, tmp_path):
    path = tmp_path / "written"

    def stop(done: int) -> None:
        if done > 18:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(model, path, 80, on_progress=stop)
    assert sum(map(len, written(model, path))) > 18
    generate(model, path, 80)
    generate(model, tmp_path / "at once", 80)
    assert written(model, path) == written(model, tmp_path / "at once")


def test_starts_of_changed_files_come_before_those_that_were_used(model, path):
    generate(model, path, 1)
    generate(model, path, 40, starts=[*STARTS, [9, 10]])
    starts = [start.tolist() for start, _ in GeneratedTexts(path, fingerprint(model))]
    assert starts[:6] == [*STARTS, [9, 10]]


@pytest.mark.parametrize(("seconds", "batches"), [(0.0, 0), (9.0, 1), (19.0, 1), (21.0, 2), (31.0, 3)])
def test_no_batch_is_begun_that_would_not_end_in_time(model, path, monkeypatch, seconds, batches):
    clock = tens()
    monkeypatch.setattr(writing.time, "monotonic", lambda: next(clock))
    generate(model, path, 10_000, seconds=seconds)
    assert len(written(model, path)) == 3 * batches


def tens() -> Iterator[float]:
    """A clock by which loading takes no time and each batch ten seconds: it is asked before and after."""
    yield 0.0
    at = 0.0
    while True:
        yield at
        yield at + 10.0
        at += 10.0


def test_a_model_that_ends_every_text_at_once_comes_to_an_end(model, path, tmp_path):
    silent = write_model(tmp_path / "silent")
    (silent / "generation_config.json").unlink(missing_ok=True)
    change_config(silent, eos_token_id=list(range(260)))
    generate(silent, path, 4)
    assert written(silent, path) == [[]] * 6


def test_progress_is_how_many_tokens_there_are(model, path):
    seen: list[int] = []
    done = generate(model, path, 30, on_progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == done == sum(max(len(text), 1) for text in written(model, path))


def test_a_model_with_another_tokenizer_is_refused(model, path):
    with pytest.raises(DraftlineError, match="another tokenizer"):
        generate_texts(model, "f" * 64, STARTS, path, 5)
    assert not path.exists()


def test_starts_are_short_pieces_from_all_over_the_documents(monkeypatch):
    documents = [np.arange(20), np.arange(100, 103), np.arange(0)]
    starts = starts_of(documents)
    assert sorted(start[0] for start in starts) == [0, 6, 12, 18, 100]
    assert starts != sorted(starts)
    assert all(len(start) <= START for start in starts)
    assert all(start == list(range(start[0], start[0] + len(start))) for start in starts)


def test_starts_keep_their_order_when_other_documents_change_and_equal_ones_are_one():
    documents = [np.arange(at, at + 20) for at in range(0, 200, 40)]
    starts = starts_of(documents)
    fewer = starts_of([*documents[1:], documents[1]])
    assert fewer == [start for start in starts if start in fewer]
    assert len(fewer) == len(starts) - 4
