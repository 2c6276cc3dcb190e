"""Files that are read once, and again when they have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DraftlineError
from engine.kept import Kept


class Reading:
    def __init__(self) -> None:
        self.read: list[str] = []

    def __call__(self, path: Path) -> str:
        self.read.append(path.name)
        text = (path / "a" if path.is_dir() else path).read_text("utf-8")
        if text == "bad":
            raise DraftlineError("It is bad.")
        return text


@pytest.fixture
def reading() -> Reading:
    return Reading()


def replace(path: Path, text: str) -> None:
    fresh = path.with_name("fresh")
    fresh.write_text(text, "utf-8")
    fresh.replace(path)


def test_what_has_not_changed_is_read_once(tmp_path, reading):
    (tmp_path / "t").write_text("one", "utf-8")
    kept = Kept(reading, 2)
    assert [kept.get(tmp_path / "t") for _ in range(3)] == ["one"] * 3
    assert reading.read == ["t"]


def test_what_was_replaced_is_read_again_even_in_a_folder(tmp_path, reading):
    (tmp_path / "d").mkdir()
    for place, file in ((tmp_path / "t", tmp_path / "t"), (tmp_path / "d", tmp_path / "d" / "a")):
        kept = Kept(reading, 2)
        file.write_text("one", "utf-8")
        assert kept.get(place) == "one"
        replace(file, "two")
        assert kept.get(place) == "two"


def test_what_is_not_there_yet_is_found_once_it_is(tmp_path, reading):
    kept = Kept(reading, 2)
    assert kept.get(tmp_path / "t") is None
    (tmp_path / "t").write_text("one", "utf-8")
    assert kept.get(tmp_path / "t") == "one"
    assert reading.read == ["t"]


def test_what_cannot_be_used_is_none_and_logged_once(tmp_path, reading, caplog):
    (tmp_path / "t").write_text("bad", "utf-8")
    kept = Kept(reading, 2)
    assert [kept.get(tmp_path / "t") for _ in range(3)] == [None] * 3
    assert caplog.messages == ["It is bad."]
    replace(tmp_path / "t", "good")
    assert kept.get(tmp_path / "t") == "good"


def test_the_one_not_asked_for_longest_is_let_go(tmp_path, reading):
    for name in "abc":
        (tmp_path / name).write_text(name, "utf-8")
    kept = Kept(reading, 2)
    known = {name: kept.get(tmp_path / name) for name in "abacab"}
    assert reading.read == ["a", "b", "c", "b"]
    assert kept.holds(known["b"])
    assert not kept.holds(known["c"])
