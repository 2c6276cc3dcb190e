"""What a model wrote is on the disk batch by batch, and stays there whatever happens to a later one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import DraftlineError
from model_setup.generated_texts import GeneratedTexts

FINGERPRINT = "f" * 64
ids = st.lists(st.integers(0, 2**32 - 1), max_size=5)
batch = st.lists(st.tuples(ids, ids), min_size=1, max_size=4)


def append(path, pairs, fingerprint=FINGERPRINT) -> None:
    GeneratedTexts(path, fingerprint).append([start for start, _ in pairs], [text for _, text in pairs])


def read(path, fingerprint=FINGERPRINT) -> list[tuple[list[int], list[int]]]:
    return [(start.tolist(), text.tolist()) for start, text in GeneratedTexts(path, fingerprint)]


@given(st.lists(batch, max_size=4))
def test_all_batches_are_read_in_order_whoever_wrote_them(tmp_path_factory, batches):
    path = tmp_path_factory.mktemp("texts") / "texts"
    one = GeneratedTexts(path, FINGERPRINT)
    for number, pairs in enumerate(batches):
        if number % 2:
            append(path, pairs)
            one = GeneratedTexts(path, FINGERPRINT)
        else:
            one.append([start for start, _ in pairs], [text for _, text in pairs])
    assert read(path) == [pair for pairs in batches for pair in pairs]


FIRST, SECOND, THIRD = [([1, 2], [3])], [([4], [5, 6]), ([7], [])], [([8], [9])]


def test_a_batch_cut_off_is_lost_alone_and_the_next_follows_those_before(tmp_path):
    path = tmp_path / "texts"
    append(path, FIRST)
    whole = path.stat().st_size
    append(path, SECOND)
    data = path.read_bytes()
    for size in range(whole, len(data)):
        path.write_bytes(data[:size])
        assert read(path) == FIRST
        append(path, THIRD)
        assert read(path) == FIRST + THIRD


def test_a_damaged_batch_ends_the_file(tmp_path):
    path = tmp_path / "texts"
    append(path, FIRST)
    whole = path.stat().st_size
    append(path, SECOND)
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        assert read(path) == ([] if at < whole else FIRST)


def test_texts_of_another_tokenizer_are_not_read_and_give_way_to_this_one_s(tmp_path):
    path = tmp_path / "texts"
    append(path, FIRST, "0" * 64)
    assert read(path) == []
    append(path, SECOND)
    assert read(path) == SECOND


def test_a_full_disk_is_told_in_a_sentence_and_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "texts"
    append(path, FIRST)

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", disk_full)
        with pytest.raises(DraftlineError, match=r"cannot be kept in .*No space left on device.*make room"):
            append(path, SECOND)
    append(path, THIRD)
    assert read(path)[0] == FIRST[0]
    assert read(path)[-1] == THIRD[0]
