"""Which documents are left alone, by their URI alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lsp_server.exclusions import Exclusions, left_alone


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


ROOT = Path(__file__).parent
EXCLUSIONS = Exclusions(ROOT, ["generated/", "/top.py", "*.sql", "a b/**/c.py"])


@pytest.mark.parametrize(
    "name",
    ["generated/x.py", "deep/generated/x.py", "top.py", "deep/x.sql", "a b/c.py", "a b/d/c.py", ".env"],
)
def test_patterns_go_by_the_root_and_come_beside_the_rules(name):
    assert EXCLUSIONS.cover((ROOT / name).as_uri())


@pytest.mark.parametrize("name", ["generated.py", "deep/top.py", "sql", "a b/d.py"])
def test_what_the_patterns_do_not_name(name):
    assert not EXCLUSIONS.cover((ROOT / name).as_uri())


def test_documents_outside_the_root_and_without_a_file():
    assert EXCLUSIONS.cover((ROOT.parent / "elsewhere" / "x.sql").as_uri())
    assert EXCLUSIONS.cover("untitled:x.sql")
    assert EXCLUSIONS.cover("vscode-remote://ssh-remote+host/home/me/generated/x.py")
    assert EXCLUSIONS.cover(
        (ROOT / "generated" / "book.ipynb").as_uri().replace("file", "vscode-notebook-cell")
    )
    for uri in ("untitled:Untitled-1", "", "file:///", "file://[half/x.py"):
        assert not EXCLUSIONS.cover(uri)
