"""The host's socket: whether it is still the one that clients find."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine.host.door import Door
from engine.host.place import Place


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    place = Place(tmp_path / "host")
    place.ready()
    it = Door(place, 1)
    yield it
    with suppress(OSError):  # its socket may be gone
        it._listener.close()


def test_another_key_makes_it_somebody_else_s(door, tmp_path):
    assert door.is_ours
    (tmp_path / "host" / "key").write_bytes(b"another")
    assert not door.is_ours


def test_a_file_in_the_folder_s_place_makes_it_nobody_s(door, tmp_path):
    (tmp_path / "host").rename(tmp_path / "moved")
    (tmp_path / "host").write_bytes(b"")
    assert not door.is_ours


def test_it_is_not_given_up_where_nobody_can_tell(door, monkeypatch):
    def too_many_files(path):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(Path, "read_bytes", too_many_files)
    assert door.is_ours
