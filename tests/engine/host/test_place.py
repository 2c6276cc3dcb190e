"""A host's folder: nobody else can open it, versions have one each, and paths may be long."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from engine.errors import DraftlineError
from engine.host.place import Place

posix = pytest.mark.skipif(sys.platform == "win32", reason="a user's folders are closed to others there")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_versions_and_machines_have_places_of_their_own(tmp_path, monkeypatch):
    places = {Place.of(tmp_path, version) for version in ("1.0", "1.1", "1.0")}
    monkeypatch.setattr("platform.node", lambda: "an/other")
    places.add(Place.of(tmp_path, "1.0"))
    assert len({place.folder for place in places}) == len({place.address for place in places}) == 3
    assert Place.all(tmp_path) == []
    for place in places:
        place.ready()
    assert set(Place.all(tmp_path)) == places


@posix
@pytest.mark.parametrize("name", ["short", "long" * 40])
def test_folders_are_the_user_s_alone_even_if_they_were_not(tmp_path, name):
    place = Place(tmp_path / name)
    socket = Path(place.address)
    place.folder.mkdir(mode=0o755)
    place.ready()
    assert mode(place.folder) == mode(socket.parent) == 0o700
    assert len(os.fsencode(socket)) < 104
    if socket.parent != place.folder:
        socket.parent.rmdir()


@posix
def test_a_folder_that_is_something_else_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "host").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DraftlineError, match="not a folder of your own"):
        Place(tmp_path / "host").ready()


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    place = Place(tmp_path)
    key = place.key()
    assert len(key) == 32
    assert place.key() == key
    assert sys.platform == "win32" or mode(tmp_path / "key") == 0o600
    (tmp_path / "key").write_bytes(b"cut")
    assert place.key() not in (key, b"cut")


@posix
@pytest.mark.parametrize("spoilt", ["others can read it", "others can write it", "it is another's"])
def test_a_key_that_others_may_know_is_made_anew(tmp_path, monkeypatch, spoilt):
    place = Place(tmp_path)
    key = place.key()
    if spoilt == "it is another's":
        monkeypatch.setattr("os.getuid", lambda: (tmp_path / "key").stat().st_uid + 1)
        assert place.key() != key
    else:
        (tmp_path / "key").chmod(0o640 if "read" in spoilt else 0o620)
        assert place.key() != key
        assert mode(tmp_path / "key") == 0o600


@posix
def test_windows_that_keep_their_temporary_files_elsewhere_have_the_same_address(tmp_path, monkeypatch):
    """A shell often has another ``TMPDIR`` than what was started from the desktop."""
    place, addresses = Place(tmp_path / ("long" * 40)), set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv("TMPDIR", str(tmp_path / name))
        monkeypatch.setattr("tempfile.tempdir", None)
        addresses.add(place.address)
    assert len(addresses) == 1


def test_notes_come_back_and_garbled_ones_are_empty(tmp_path):
    place = Place(tmp_path)
    assert place.read("starts") == {}
    place.write("starts", {"times": [1.5]})
    assert place.read("starts") == {"times": [1.5]}
    for garbled in (b"{", b"[]", b"\xff"):
        (tmp_path / "starts.json").write_bytes(garbled)
        assert place.read("starts") == {}
    place.forget("starts")
    place.forget("starts")
    assert list(tmp_path.iterdir()) == []
