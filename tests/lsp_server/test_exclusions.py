"""Which documents are left alone, by their URI alone."""

from __future__ import annotations

import pytest

from lsp_server.exclusions import left_alone


@pytest.mark.parametrize(
    "uri",
    [
        "file:///home/me/project/.env",
        "file:///home/me/project/.env.local",
        "file:///home/me/id_rsa",
        "file:///c%3A/Users/me/server.PEM",
        "file:///home/me/%2Enetrc",
        "untitled:secrets.yml",
        "vscode-remote://ssh-remote+host/home/me/credentials.json",
        "C:\\Users\\me\\.env",
        "file://[half/.env",
        ".env",
    ],
)
def test_files_of_secrets(uri):
    assert left_alone(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file:///home/me/.env/main.py",
        "file:///home/me/environment.py",
        "untitled:Untitled-1",
        "vscode-notebook-cell:/home/me/a.ipynb#W0",
        "file:///home/me/notes.txt",
        "file:///home/me/vendor/a.py",
        "",
    ],
)
def test_all_others_are_completed(uri):
    assert not left_alone(uri)
