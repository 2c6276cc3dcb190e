"""A model goes on from pieces of the repository until it has written as many tokens as were wanted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.checkpoint import load_checkpoint
from engine.errors import DraftlineError
from engine.generation import sample_texts
from engine.reader import Reader
from engine.sampling import Sampler
from engine.tokenizer import Tokenizer
from model_setup import generated_text
from model_setup.generated_text import LENGTH, START, TEMPERATURE, generate_texts, starts_of
from tests.engine.tiny_models import change_config, write_model

STARTS = [[i, i + 1] for i in range(5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def short_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated_text, "SIDE_BY_SIDE", 3)
    monkeypatch.setattr(generated_text, "LENGTH", 6)


def written(model: Path, tokens: int, starts=STARTS) -> list[list[int]]:
    fingerprint = Tokenizer(model / "tokenizer.json").fingerprint
    return [text.tolist() for text in generate_texts(model, fingerprint, starts, tokens)]


def test_texts_go_on_from_each_start_in_turn_at_temperature_1_5_each_with_its_own_noise(model):
    texts = written(model, 40)
    checkpoint = load_checkpoint(model, "int8")
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


def test_it_stops_with_the_round_in_which_there_are_enough(model):
    for tokens in (1, 18, 19):
        texts = written(model, tokens)
        assert sum(map(len, texts)) >= tokens
        assert sum(map(len, texts[:-3])) < tokens
    assert written(model, 0) == written(model, 5, starts=[]) == []


def test_a_model_that_ends_every_text_at_once_comes_to_an_end(model, tmp_path):
    silent = write_model(tmp_path / "silent")
    (silent / "generation_config.json").unlink(missing_ok=True)
    change_config(silent, eos_token_id=list(range(260)))
    assert written(silent, 4) == [[]] * 6


def test_progress_is_how_many_tokens_there_are(model):
    fingerprint = Tokenizer(model / "tokenizer.json").fingerprint
    seen: list[int] = []
    texts = list(generate_texts(model, fingerprint, STARTS, 30, seen.append))
    assert seen == sorted(seen)
    assert seen[-1] == sum(max(len(text), 1) for text in texts)


def test_a_model_with_another_tokenizer_is_refused(model):
    with pytest.raises(DraftlineError, match="another tokenizer"):
        next(generate_texts(model, "f" * 64, STARTS, 5))


def test_starts_are_short_pieces_from_all_over_the_documents():
    documents = [np.arange(20), np.arange(100, 103), np.arange(0)]
    starts = starts_of(documents)
    assert sorted(start[0] for start in starts) == [0, 6, 12, 18, 100]
    assert starts != sorted(starts)
    assert all(len(start) <= START for start in starts)
    assert all(start == list(range(start[0], start[0] + len(start))) for start in starts)
    assert starts == starts_of(documents)
