"""Only files of the repository itself, none that git ignores or that is secret, and none out of date."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from lsp_server import repository_files
from lsp_server.documents import split_lines
from lsp_server.exclusions import Exclusions
from lsp_server.imports import imports_of
from lsp_server.repository_files import MAX_BYTES, RepositoryFiles

CODE = "def area(width, height):\n    return width * height\n"
SECRET = "API_KEY"


def write(root: Path, name: str, content: str | bytes = CODE) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    write(folder, ".gitignore", "ignored/\nlocal_*.py\n")
    return folder


def files_of(root: Path | None) -> RepositoryFiles:
    return RepositoryFiles(root, background=lambda work: work())


def text(files: RepositoryFiles, path: Path) -> str:
    files.read([path])
    return "".join(line for _, block in files.blocks(path) for line in block.lines)


def allowed(files: RepositoryFiles, path: Path) -> bool:
    files.ask(path)
    return files.may_be_used(path)


def test_a_file_that_git_tracks_or_would_track_is_read(root):
    files = files_of(root)
    for name in ("area.py", "deep/ünï [x]*.py"):
        assert text(files, write(root, name)) == CODE
        assert allowed(files, root / name)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ignored/a.py", CODE),
        ("local_settings.py", CODE),
        (".env", f"{SECRET}=1"),
        ("secrets.yml", f"{SECRET}: 1"),
        ("id_rsa.py", CODE),
        ("node_modules/x/index.js", CODE),
        ("api_pb2.py", CODE),
        ("notes.docx", CODE),
        ("big.py", "x = 1\n" * (MAX_BYTES // 6 + 1)),
        ("binary.py", b"x\0y"),
        ("minified.js", "var a=1;" * 500),
        ("made.py", "# auto-generated, do not edit\n" + CODE),
    ],
)
def test_a_file_that_must_not_be_shown_is_not_read(root, name, content):
    assert text(files_of(root), write(root, name, content)) == ""


def test_what_the_user_excludes_is_not_read_nor_through_a_link(root):
    files = RepositoryFiles(root, lambda work: work(), Exclusions(root, ["made/"]))
    made = write(root, "made/a.py")
    assert text(files, made) == ""
    assert not allowed(files, made)
    assert text(files, write(root, "b.py")) == CODE
    if os.name != "nt":
        (root / "link.py").symlink_to(made)
        assert text(files, root / "link.py") == ""


@pytest.mark.parametrize("name", ["ignored/a.py", "local_settings.py", ".env", "../outside.py"])
def test_an_open_document_of_such_a_file_is_not_shown_either(root, name):
    assert not allowed(files_of(root), write(root, name))


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_lead_to_nothing_outside_or_forbidden(root):
    outside = write(root.parent, "elsewhere/private.py")
    secret = write(root, ".env", SECRET)
    ignored = write(root, "ignored/a.py")
    (root / "link.py").symlink_to(outside)
    (root / "folder").symlink_to(outside.parent)
    (root / "config.py").symlink_to(secret)
    (root / "plain.py").symlink_to(ignored)
    (root / "loop.py").symlink_to(root / "loop.py")
    files = files_of(root)
    for name in ("link.py", "folder/private.py", "config.py", "plain.py", "loop.py"):
        assert text(files, root / name) == ""
        assert not allowed(files, root / name)


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_repository_may_itself_be_opened_through_a_link(root):
    write(root, "area.py")
    link = root.parent / "link"
    link.symlink_to(root)
    files = files_of(link)
    assert text(files, link / "area.py") == CODE
    assert files.relative(link / "area.py") == files.relative(root / "area.py") == "area.py"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")
def test_what_is_no_file_is_not_waited_for(root):
    os.mkfifo(root / "pipe.py")
    assert text(files_of(root), root / "pipe.py") == ""


def test_a_file_that_changed_since_is_dropped_and_read_again(root):
    files = files_of(root)
    path = write(root, "area.py")
    assert text(files, path) == CODE
    before = files.generation
    write(root, "area.py", "volume = 3\n")
    assert not files.is_as_read(path)
    assert files.blocks(path) == []
    assert files.generation > before
    assert [block.lines for _, block in files.blocks(path)] == [("volume = 3\n",)]


def test_a_file_that_is_gone_or_has_become_ignored_is_dropped(root):
    files = files_of(root)
    gone, hidden = write(root, "gone.py"), write(root, "hidden.py")
    files.read([gone, hidden])
    gone.unlink()
    write(root, ".gitignore", "hidden.py")
    write(root, "hidden.py", CODE + CODE)
    for path in (gone, hidden):
        files.blocks(path)
        assert files.blocks(path) == []


def test_imported_files_are_found_and_read(root):
    main = write(root, "main.py", "import area, local_settings\nimport os\n")
    area, hidden = write(root, "area.py"), write(root, "local_settings.py")
    files = files_of(root)
    files.look_at_imports(main, imports_of(split_lines("import area, local_settings\n"), ".py"))
    assert files.imported(main) == [area, hidden]
    assert files.blocks(area)
    assert not files.blocks(hidden)
    files.forget(main)
    assert files.imported(main) == []


def test_outside_git_hidden_folders_and_products_are_left_out(tmp_path):
    files = files_of(tmp_path)
    assert text(files, write(tmp_path, "src/area.py")) == CODE
    for name in (".venv/lib/a.py", "build/b.py", "__pycache__/c.py"):
        assert text(files, write(tmp_path, name)) == ""


def test_where_git_cannot_be_asked_nothing_is_read(root, monkeypatch):
    def missing(*_args, **_options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(repository_files.subprocess, "run", missing)
    assert text(files_of(root), write(root, "area.py")) == ""


@pytest.mark.skipif(os.name == "nt", reason="a program for a Unix shell")
def test_no_program_is_run_that_the_repository_names(root):
    subprocess.run(
        ["git", "-C", str(root), "config", "core.fsmonitor", f"touch {root}/ran; false"], check=True
    )
    assert text(files_of(root), write(root, "area.py")) == CODE
    assert not (root / "ran").exists()


def test_a_path_that_no_file_can_have_keeps_nothing_from_being_read(root):
    files, area = files_of(root), write(root, "area.py")
    files.read([root / "a\0b.py", area])
    assert files.blocks(area)


def test_without_a_repository_nothing_is_read(tmp_path):
    files = files_of(None)
    assert text(files, write(tmp_path, "area.py")) == ""
    assert not allowed(files, tmp_path / "area.py")
    assert files.relative(tmp_path / "area.py") is None


def test_many_files_at_once_are_asked_about_in_parts(root, monkeypatch):
    monkeypatch.setattr(repository_files, "_MOST_ASKED", 3)
    files = files_of(root)
    paths = [write(root, f"f{n}.py", f"value_{n} = {n}\n") for n in range(8)]
    files.read(paths)
    assert all(files.blocks(path) for path in paths)


def test_little_is_kept_of_very_many_files(root, monkeypatch):
    monkeypatch.setattr(repository_files, "_MOST_KEPT", 3)
    files = files_of(root)
    paths = [write(root, f"f{n}.py") for n in range(8)]
    for path in paths:
        files.read([path])
    assert [bool(files.blocks(path)) for path in paths] == [False] * 5 + [True] * 3


def test_the_background_is_another_thread_and_takes_up_what_comes_meanwhile(root):
    files = RepositoryFiles(root)
    paths = [write(root, f"f{n}.py") for n in range(20)]
    for path in paths:
        files.ask(path)
    for thread in threading.enumerate():
        if thread.name == "repository files":
            assert thread.daemon
            thread.join(30)
    assert all(files.may_be_used(path) for path in paths)


def test_an_error_in_the_background_does_not_end_it(root, monkeypatch):
    files = files_of(root)
    path = write(root, "area.py")
    monkeypatch.setattr(repository_files, "_usable", lambda *_: 1 / 0)
    files.ask(path)
    monkeypatch.undo()
    assert allowed(files, path)
