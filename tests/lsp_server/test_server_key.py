"""Where the key to a team's server comes from."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from lsp_server.server_key import server_key

HOST = "team.example:8000"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("DRAFTLINE_API_KEY", raising=False)
    monkeypatch.setitem(sys.modules, "keyring", None)


def keyring(monkeypatch, get):
    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=get))


def test_the_environment_s_key_comes_first(monkeypatch):
    keyring(monkeypatch, lambda service, host: "other")
    monkeypatch.setenv("DRAFTLINE_API_KEY", "sk-1")
    assert server_key(HOST) == "sk-1"


def test_the_keyring_holds_one_for_each_host(monkeypatch):
    held = {("draftline", HOST): "sk-2"}
    keyring(monkeypatch, lambda service, host: held.get((service, host)))
    assert server_key(HOST) == "sk-2"
    assert server_key("team.example:9000") is None


def test_without_a_keyring_there_is_none():
    assert server_key(HOST) is None


def test_a_keyring_that_cannot_be_read_holds_none_and_is_not_quoted(monkeypatch, caplog):
    def locked(service, host):
        raise RuntimeError("sk-3 is locked")

    keyring(monkeypatch, locked)
    assert server_key(HOST) is None
    assert "RuntimeError" in caplog.text
    assert "sk-3" not in caplog.text
