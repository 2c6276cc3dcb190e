"""What is learned from a repository: its own source text, and nothing secret, foreign or unreadable."""

import os
import subprocess
from pathlib import Path

import pytest

from engine.errors import DraftlineError
from model_setup import corpus, listing, store
from model_setup.corpus import MAX_BYTES, CorpusReport, read_sources
from model_setup.secret_lines import drop_secret_lines

CODE = "def area(width, height):\n    return width * height\n"


def write(root: Path, name: str, content: str | bytes = CODE) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def git(root: Path, *args: str) -> None:
    subprocess.run(["git", "-C", str(root), *args], check=True, capture_output=True)


def read(root: Path) -> tuple[dict[str, str], CorpusReport]:
    report = CorpusReport()
    return {s.path.as_posix(): s.text for s in read_sources(root, report)}, report


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    write(tmp_path, "main.py", "print('main')\n")
    return tmp_path


def test_in_a_git_repository_the_tracked_files_are_read(repository):
    git(repository, "init")
    write(repository, "build/tracked.py")
    git(repository, "add", "main.py", "build/tracked.py")
    write(repository, "scratch.py", "untracked = 1\n")
    texts, report = read(repository)
    assert list(texts) == ["build/tracked.py", "main.py"]
    assert texts["build/tracked.py"] == CODE
    assert report.files == 2
    assert report.characters == sum(map(len, texts.values()))


def test_a_folder_inside_a_git_repository_is_read_alone(repository):
    git(repository, "init")
    write(repository, "part/inner ü.py")
    git(repository, "add", ".")
    assert list(read(repository / "part")[0]) == ["inner ü.py"]


@pytest.mark.skipif(os.name == "nt", reason="a program for a Unix shell")
def test_no_program_is_run_that_the_repository_names(repository):
    write(repository, "main.py", "x = 1\n")
    git(repository, "init", "-q")
    git(repository, "add", ".")
    git(repository, "config", "core.fsmonitor", f"touch {repository}/ran; false")
    assert list(read_sources(repository, CorpusReport()))
    assert not (repository / "ran").exists()


def test_outside_git_the_tree_is_read_without_hidden_folders_products_and_environments(repository):
    for name in (".hidden/a.py", "build/b.py", "__pycache__/c.py", "my-env/lib/d.py", "package/e.py"):
        write(repository, name, f"# {name}\n")
    write(repository, "my-env/pyvenv.cfg")
    assert list(read(repository)[0]) == ["main.py", "package/e.py"]


def test_outside_git_what_a_gitignore_names_is_left_out_as_git_would(repository):
    write(repository, ".gitignore", "*.log.py\n/made/\n!\n")
    write(repository, "part/.gitignore", "!keep.log.py\nlocal.py\n")
    for name in ("a.log.py", "made/b.py", "part/made/c.py", "part/keep.log.py", "part/local.py", "local.py"):
        write(repository, name, f"# {name}\n")
    assert list(read(repository)[0]) == ["local.py", "main.py", "part/keep.log.py", "part/made/c.py"]


def test_inside_git_but_nothing_added_yet_the_tree_is_read_without_what_is_ignored(repository):
    git(repository, "init")
    write(repository, ".gitignore", "scratch.py\n")
    write(repository, "scratch.py")
    assert list(read(repository)[0]) == ["main.py"]


def test_a_hook_of_another_repository_does_not_lead_astray(repository, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    git(other, "init")
    write(other, "other.py")
    git(other, "add", ".")
    git(repository, "init")
    git(repository, "add", ".")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    assert list(read(repository)[0]) == ["main.py"]


def test_a_file_in_conflict_is_read_once(repository):
    git(repository, "init")
    blob = subprocess.run(
        ["git", "-C", str(repository), "hash-object", "-w", "main.py"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    entries = "".join(f"100644 {blob} {side}\tmain.py\n" for side in (1, 2, 3))
    subprocess.run(
        ["git", "-C", str(repository), "update-index", "--index-info"], input=entries, check=True, text=True
    )
    _, report = read(repository)
    assert (report.files, report.left_out) == (1, {})


def test_the_user_s_patterns_from_all_settings_are_added_to_the_rules(repository, monkeypatch):
    for name in ("generated/deep/a.py", "b_test.py", "c.py", "d.py", ".env.py"):
        write(repository, name, f"# {name}\n")
    write(store.home(), "settings.toml", 'exclude = ["generated/**", "!.env.py"]\nmodel = "x"\n')
    write(repository, ".draftline.toml", 'exclude = ["*_test.py"]\n')
    monkeypatch.setenv("DRAFTLINE_EXCLUDE", '["/d.py"]')
    texts, report = read(repository)
    assert {"c.py", "main.py"} < set(texts)
    assert report.left_out["excluded"] == ["b_test.py", "d.py", "generated/deep/a.py"]
    assert report.left_out["secret file"] == [".env.py"]


@pytest.mark.parametrize(
    "settings",
    ["exclude = [", 'exclude = "a"', "exclude = [1]", 'exclude = [""]', 'exclude = ["!"]', "\udcff"],
)
def test_nothing_is_read_where_the_patterns_cannot_be(repository, settings):
    write(repository, ".draftline.toml", settings.encode("utf-8", "surrogateescape"))
    with pytest.raises(DraftlineError, match=r"mend|write it") as caught:
        read(repository)
    assert str(caught.value).count("\n") == 0


def test_files_are_counted_by_language(repository):
    for name in ("a.pyi", "b.go", "Makefile"):
        write(repository, name, f"# {name}\n")
    _, report = read(repository)
    assert report.languages == {"Python": 2, "Go": 1, "build files": 1}
    assert str(report).startswith("4 files (2 Python, 1 ")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("notes.docx", "text", "not source"),
        ("picture.py", b"\x89PNG\0\0", "binary"),
        ("big.py", "x = 1\n" * (MAX_BYTES // 6 + 1), "over 1 MB"),
        ("node_modules/left-pad/index.js", CODE, "vendored"),
        ("src/third_party/zlib.c", CODE, "vendored"),
        ("app.min.js", CODE, "generated"),
        ("api_pb2.py", CODE, "generated"),
        ("tables.py", "# This file was auto-generated. Do not edit.\n" + CODE, "generated"),
        ("packed.js", "var a=1;" * 200, "minified"),
        ("copy.py", "print('main')\n", "duplicate"),
        ("blank.py", "\n\n", "empty"),
        ("japanese.py", "# 日本語の文章だけ\n".encode("shift_jis"), "unknown encoding"),
        ("half.py", b"# coding: unicode_escape\nx = '\\ud800 \xff'\n" + 9 * b"\xff", "unknown encoding"),
        (".env.py", CODE, "secret file"),
        ("id_rsa.py", CODE, "secret file"),
        ("secrets.yaml", CODE, "secret file"),
        ("server.pem", CODE, "secret file"),
        (".npmrc", CODE, "secret file"),
        (".netrc", CODE, "secret file"),
    ],
)
def test_a_file_that_teaches_nothing_or_must_not_is_left_out_with_its_reason(
    repository, name, content, reason
):
    # the copy comes after the original in the order of paths
    write(repository, f"z/{name}", content)
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert report.left_out == {reason: [f"z/{name}"]}
    assert f"1 {reason}" in str(report)


def test_text_is_kept_as_it_is_in_any_encoding_that_is_known(repository):
    write(repository, "bom.py", b"\xef\xbb\xbfa = '\xc3\xa9'\r\n")
    write(repository, "cookie.py", "# -*- coding: shift_jis -*-\n# 日本語\n".encode("shift_jis"))
    write(repository, "latin.py", b"# by Andr\xe9\n" + CODE.encode() * 2)
    write(repository, "utf16.cs", "class A {}\n".encode("utf-16"))
    texts, _ = read(repository)
    assert texts["bom.py"] == "a = 'é'\r\n"
    assert "日本語" in texts["cookie.py"]
    assert "André" in texts["latin.py"]
    assert texts["utf16.cs"] == "class A {}\n"


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_links_lead_nowhere_outside_and_add_nothing_inside(repository, tmp_path_factory):
    outside = write(tmp_path_factory.mktemp("elsewhere"), "private.py", "private = 1\n")
    (repository / "a_link.py").symlink_to(outside)
    (repository / "same.py").symlink_to(repository / "main.py")
    (repository / "loop.py").symlink_to(repository / "loop.py")
    (repository / "folder").symlink_to(outside.parent)
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert report.left_out["link"] == ["a_link.py", "loop.py", "same.py"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_a_folder_that_became_a_link_after_git_tracked_it_leads_nowhere(repository, tmp_path_factory):
    git(repository, "init")
    inner = write(repository, "folder/inner.py", "inner = 1\n").parent
    git(repository, "add", ".")
    outside = write(tmp_path_factory.mktemp("elsewhere"), "inner.py", "private = 1\n").parent
    (inner / "inner.py").unlink()
    inner.rmdir()
    inner.symlink_to(outside)
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert report.left_out == {"link out of the repository": ["folder/inner.py"]}


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
def test_no_link_gives_a_secret_file_another_name(repository):
    write(repository, ".env", "NAME=value\n")
    (repository / "settings.py").symlink_to(repository / ".env")
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert report.left_out == {"link": ["settings.py"], "secret file": [".env"]}


def test_a_file_that_vanishes_or_cannot_be_read_is_counted(repository, monkeypatch):
    git(repository, "init")
    for name in ("gone.py", "locked.py"):
        write(repository, name, f"# {name}\n")
    git(repository, "add", ".")
    (repository / "gone.py").unlink()
    read_bytes = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path.name == "locked.py":
            raise PermissionError(13, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert report.left_out == {"unreadable": ["gone.py", "locked.py"]}


def test_a_repository_that_may_not_be_looked_into_is_refused_in_one_sentence(repository, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DraftlineError, match="may not be looked into; give yourself the permission"):
        read(repository)


def test_200_000_files_are_looked_at_by_their_names_and_told_in_a_line(repository, monkeypatch):
    names = (f"src/package_{number % 500}/file_{number}" for number in range(200_000))
    listed = [Path(f"{name}.{'pem' if number % 3 else 'json'}") for number, name in enumerate(names)]
    monkeypatch.setattr(corpus, "tracked_files", lambda root: [*listed, Path("main.py")])
    texts, report = read(repository)
    assert list(texts) == ["main.py"]
    assert sum(map(len, report.left_out.values())) == 200_000
    assert len(str(report)) < 200


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may look everywhere")
def test_a_folder_that_may_not_be_looked_into_is_passed_over(repository):
    locked = write(repository, "locked/deep/file.py").parents[1]
    locked.chmod(0)
    try:
        texts, report = read(repository)
    finally:
        locked.chmod(0o700)
    assert texts.keys() == {"main.py"}
    assert report.left_out == {"unreadable": ["locked"]}


def test_without_git_installed_the_tree_is_read(repository, monkeypatch):
    def missing(*_args, **_kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(listing.subprocess, "run", missing)
    assert list(read(repository)[0]) == ["main.py"]


def test_a_folder_without_source_files_is_refused_in_one_sentence(tmp_path):
    write(tmp_path, "notes.docx")
    with pytest.raises(DraftlineError, match=r"no source files to learn from .*1 not source") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(DraftlineError, match="There is no folder"):
        read(tmp_path / "missing")


AWS = "AKIA" + "IOSFODNN7EXAMPLE"  # in two parts, or this line would be dropped from our own trigram


@pytest.mark.parametrize(
    "line",
    [
        f"aws = {AWS}",
        'password = "hunter22"',
        "'api_key': 'a1b2c3d4e5f6a7b8c9d0'",
        "const token = 'ab12cd34ef56ab12cd34';",
        "GITHUB=ghp_" + "a1B2" * 9,
        "url = postgres://admin:letmein@db.example.com/app",
        "digest: " + "0123456789abcdef" * 2,
        'blob = "' + "q7ZpX2vN9sLk4WmT8rYb1HcD6fGjE3uA0oQi5BxV" + '"',
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nlQOYBF\n-----END PGP PRIVATE KEY BLOCK-----",
        "PuTTY-User-Key-File-2: ssh-rsa",
        "mail = SG." + "aB3" * 7 + "a." + "xY9" * 14 + "x",
        "bot = 123456789:AA" + "b1C" * 11,
        "//registry.example.com/:_authToken=${TOKEN}",
        "DefaultEndpointsProtocol=https;AccountKey=" + "aB3/" * 21 + "==",
        "const token = `ab12cd34ef56ab12cd34`;",
        "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "  password: hunter2222",
        "API_KEY=0a1b2c3d4e5f6g7h8i9j",
    ],
)
def test_lines_that_look_like_secrets_are_dropped_and_only_they(line):
    text, dropped = drop_secret_lines(f"before = 1\n{line}\nafter = 2\n")
    assert text == "before = 1\nafter = 2\n"
    assert dropped == line.count("\n") + 1
    assert drop_secret_lines(line) == ("", dropped)


@pytest.mark.parametrize(
    "line",
    [
        'token = "IDENTIFIER"',
        "password = getpass.getpass()",
        'raise ValueError("the password is wrong")',
        'from_pretrained("some-organisation/a-model-name-with-many-words")',
        'url = "https://example.com:8080/path"',
        "secret = os.environ['APP_SECRET']",
        "  password: string",
        "password = password2",
        "token_type: sentencepiece_v2_tokenizer",
        "self.auth = HTTPBasicAuth2",
    ],
)
def test_ordinary_code_about_secrets_stays(line):
    assert drop_secret_lines(line) == (line, 0)


def test_dropped_lines_are_counted_in_the_report(repository):
    write(repository, "settings.py", f"DEBUG = True\nKEY = '{AWS}'\n")
    texts, report = read(repository)
    assert texts["settings.py"] == "DEBUG = True\n"
    assert report.secrets == {"settings.py": 1}
    assert "1 lines that look like secrets dropped" in str(report)


def test_about_a_tenth_of_the_files_is_held_out_whatever_is_written_in_them():
    paths = [Path("package") / f"module_{number}.py" for number in range(2000)]
    assert 160 < sum(map(corpus.held_out, paths)) < 240
    assert corpus.held_out(Path("a/b.py")) == corpus.held_out(Path("a", "b.py"))
