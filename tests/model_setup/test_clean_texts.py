"""A text is looked through for secrets once, as long as it and the rules stay what they are."""

import pytest

from model_setup import clean_texts
from model_setup.clean_texts import CleanTexts

CLEAN = "x = 1\n"
SECRET = "y = 2\npassword = 'hunter22'\n"


@pytest.fixture
def looked_at(monkeypatch) -> list[str]:
    """The texts that were looked through."""
    seen: list[str] = []
    real = clean_texts.secret_lines.drop_secret_lines

    def drop_secret_lines(text: str) -> tuple[str, int]:
        seen.append(text)
        return real(text)

    monkeypatch.setattr(clean_texts.secret_lines, "drop_secret_lines", drop_secret_lines)
    return seen


def asked(path, *texts: str) -> list[tuple[str, int]]:
    clean = CleanTexts(path)
    answers = [clean.drop_secrets(text) for text in texts]
    clean.save()
    return answers


def test_secret_lines_are_dropped_every_time_and_clean_texts_looked_through_once(tmp_path, looked_at):
    path = tmp_path / "folder" / "clean"
    for _ in range(3):
        assert asked(path, CLEAN, SECRET) == [(CLEAN, 0), ("y = 2\n", 1)]
    assert looked_at == [CLEAN, SECRET, SECRET, SECRET]


def test_texts_that_are_no_longer_there_are_forgotten(tmp_path, looked_at):
    path = tmp_path / "clean"
    for texts in ([CLEAN, "z = 3\n"], [CLEAN], [CLEAN, "z = 3\n"]):
        asked(path, *texts)
    assert looked_at == [CLEAN, "z = 3\n", "z = 3\n"]


def test_with_other_rules_all_is_looked_through_again(tmp_path, looked_at, monkeypatch):
    path = tmp_path / "clean"
    asked(path, CLEAN)
    monkeypatch.setattr(clean_texts.inspect, "getsource", lambda _module: "other rules")
    asked(path, CLEAN)
    assert looked_at == [CLEAN, CLEAN]


def test_a_damaged_file_is_no_reason_to_trust_a_text(tmp_path, looked_at):
    path = tmp_path / "clean"
    asked(path, CLEAN)
    good = path.read_bytes()
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert CleanTexts(path).drop_secrets(SECRET) == ("y = 2\n", 1)
        assert CleanTexts(path).drop_secrets(CLEAN) == (CLEAN, 0)
    assert looked_at.count(CLEAN) == 1 + len(good)


def test_where_nothing_can_be_written_all_is_looked_through(tmp_path, looked_at):
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    for _ in range(2):
        assert asked(blocked / "clean", CLEAN) == [(CLEAN, 0)]
    assert looked_at == [CLEAN, CLEAN]
