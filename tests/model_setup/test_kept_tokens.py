"""What was kept is given back as it was, or not at all."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from model_setup.kept_tokens import KeptTokens, TokenKeeper, digest_of

FINGERPRINT = "f" * 64
TEXTS = {"one": [1, 2, 3], "none": [], "two": [2**32 - 1, 0]}


def keep(path: Path, texts: dict[str, list[int]]) -> None:
    with TokenKeeper(path, FINGERPRINT) as keeper:
        for text, ids in texts.items():
            keeper.keep(digest_of(text), np.array(ids, dtype=np.uint32))


def found(path: Path, texts=TEXTS, fingerprint: str = FINGERPRINT) -> dict[str, list[int]]:
    with KeptTokens(path, fingerprint) as kept:
        ids = {text: kept.ids(digest_of(text)) for text in texts}
    return {text: tokens.tolist() for text, tokens in ids.items() if tokens is not None}


@given(st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9)))
def test_the_ids_of_each_text_come_back(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("kept") / "tokens"
    keep(path, texts)
    assert found(path, texts) == texts
    assert found(path, ["not there!"]) == {}


def test_a_text_without_tokens_and_a_missing_file_have_nothing_kept(tmp_path):
    keep(tmp_path / "tokens", TEXTS)
    assert set(found(tmp_path / "tokens")) == {"one", "two"}
    assert found(tmp_path / "missing") == {}


def test_what_another_tokenizer_made_is_not_given_back(tmp_path):
    keep(tmp_path / "tokens", TEXTS)
    assert found(tmp_path / "tokens", fingerprint="0" * 64) == {}


def test_no_damage_anywhere_gives_other_ids_than_were_kept(tmp_path):
    path = tmp_path / "tokens"
    keep(path, TEXTS)
    good, right = path.read_bytes(), found(path)
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert found(path).items() <= right.items()
        path.write_bytes(good[:at])
        assert found(path) == {}


def test_an_error_while_keeping_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "tokens"
    keep(path, {"old": [7]})
    with suppress(KeyboardInterrupt), TokenKeeper(path, FINGERPRINT) as keeper:
        keeper.keep(digest_of("new"), np.array([1], dtype=np.uint32))
        raise KeyboardInterrupt
    assert found(path, ["old", "new"]) == {"old": [7]}
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_told_in_a_sentence(tmp_path, monkeypatch):
    path = tmp_path / "tokens"
    keep(path, {"old": [7]})

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(DraftlineError, match=r"cannot be kept in .*No space left on device.*make room"):
        keep(path, TEXTS)
    assert found(path, ["old", "one"]) == {"old": [7]}
    assert list(tmp_path.iterdir()) == [path]
