"""The repository's table knows the repository best, and general code underneath."""

from pathlib import Path

import numpy as np
import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from engine.errors import DraftlineError
from engine.katz import read_counts
from engine.ngram import NgramTable
from engine.tokenizer import Tokenizer
from model_setup import trigram
from model_setup.trigram import build_repository_trigram, general_counts

GENERAL = ["import os\n\nfor name in os.listdir(path):\n    print(name)\n" * 3, "import sys\n"]
OWN = "for widget in board.widgets:\n    widget.paint(canvas)\n"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    """A byte-level BPE, as the real model's, of a few hundred tokens."""
    bpe = tokenizers.Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    bpe.train_from_iterator([*GENERAL, OWN], trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    bpe.save(str(path))
    return Tokenizer(path)


@pytest.fixture
def repository(tmp_path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "board.py").write_text(OWN, encoding="utf-8")
    return folder


real_general_texts = trigram._general_texts


@pytest.fixture(autouse=True)
def _small_general_code(monkeypatch):
    monkeypatch.setattr(trigram, "_general_texts", lambda: iter(GENERAL))


def build(repository: Path, tokenizer: Tokenizer):
    folder = repository.parent
    return build_repository_trigram(repository, tokenizer, folder / "own", folder / "general")


def test_the_table_continues_the_repository_s_text_and_falls_back_on_general_code(repository, tokenizer):
    report = build(repository, tokenizer)
    table = NgramTable(report.path, tokenizer.fingerprint)
    table.verify()
    for text in (OWN, GENERAL[0]):
        ids = tokenizer.encode(text)
        assert all(w in table.top((u, v), 4)[0] for u, v, w in zip(ids, ids[1:], ids[2:], strict=False))
    loop, own = tokenizer.encode("for widget")
    _, general = tokenizer.encode("for name")
    assert table.probability([loop], own) > table.probability([loop], general) > 0


def test_the_report_says_what_was_read(repository, tokenizer):
    report = build(repository, tokenizer)
    assert report.corpus.files == 1
    assert report.tokens == len(tokenizer.encode(OWN))
    assert report.general_tokens == sum(len(tokenizer.encode(text)) for text in GENERAL)
    assert report.bytes == report.path.stat().st_size


def test_general_code_is_counted_once_for_all_repositories(repository, tokenizer, monkeypatch):
    first = build(repository, tokenizer).path.read_bytes()
    monkeypatch.setattr(trigram, "_general_texts", lambda: pytest.fail("read again"))
    assert build(repository, tokenizer).path.read_bytes() == first


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: b"?" * len(data)])
def test_an_unusable_general_table_is_built_again(repository, tokenizer, damage):
    build(repository, tokenizer)
    general = repository.parent / "general"
    good = general.read_bytes()
    general.write_bytes(damage(good))
    build(repository, tokenizer)
    assert general.read_bytes() == good


def test_the_general_table_serves_alone(tmp_path, tokenizer):
    counts = general_counts(tokenizer, tmp_path / "general")
    assert read_counts(tmp_path / "general", tokenizer.fingerprint).tokens == counts.tokens
    ids = tokenizer.encode(GENERAL[0])
    table = NgramTable(tmp_path / "general", tokenizer.fingerprint)
    assert ids[2] in table.top(ids[:2], 4)[0]


def test_what_a_model_wrote_is_counted_once_and_follows_what_is_there(repository, tokenizer):
    ids = tokenizer.encode(OWN)
    plain = read_counts(build(repository, tokenizer).path, tokenizer.fingerprint)

    def writer(documents):
        assert [document.tolist() for document in documents] == [ids]
        yield np.array([ids[0], ids[5]], dtype=np.uint32)
        yield np.array([], dtype=np.uint32)

    folder = repository.parent
    report = build_repository_trigram(
        repository, tokenizer, folder / "own", folder / "general", writer=writer
    )
    both = read_counts(report.path, tokenizer.fingerprint)
    assert (report.written_tokens, both.tokens) == (2, plain.tokens + 2)
    table = NgramTable(report.path, tokenizer.fingerprint)
    assert table.distribution(ids[:1]).sum() == pytest.approx(1, abs=1e-5)


def test_a_writer_that_is_interrupted_leaves_the_old_table(repository, tokenizer):
    before = build(repository, tokenizer).path.read_bytes()

    def writer(documents):
        yield np.array([1, 2, 3], dtype=np.uint32)
        raise KeyboardInterrupt

    folder = repository.parent
    with pytest.raises(KeyboardInterrupt):
        build_repository_trigram(repository, tokenizer, folder / "own", folder / "general", writer=writer)
    assert (folder / "own").read_bytes() == before
    assert {path.name for path in folder.iterdir()} == {"own", "general", "repository"}


def test_an_empty_repository_is_refused_before_anything_is_built_and_the_old_table_stays(
    repository, tokenizer
):
    path = build(repository, tokenizer).path
    before = path.read_bytes()
    (repository / "board.py").unlink()
    (repository.parent / "general").unlink()
    with pytest.raises(DraftlineError, match="no source files"):
        build(repository, tokenizer)
    assert path.read_bytes() == before
    assert not (repository.parent / "general").exists()


def test_progress_is_reported_by_part(repository, tokenizer):
    seen: list[tuple[str, int]] = []
    folder = repository.parent
    build_repository_trigram(
        repository,
        tokenizer,
        folder / "own",
        folder / "general",
        lambda part, tokens: seen.append((part, tokens)),
    )
    assert [part for part, _ in seen] == ["repository", "general code"]
    assert seen[0][1] == len(tokenizer.encode(OWN))


def test_general_code_is_the_standard_library_and_an_equal_share_of_each_package(tmp_path, monkeypatch):
    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    write("lib/abc.py", "import _abc\n" * 10)
    write("lib/test/test_abc.py", "not this\n")
    write("lib/site-packages/small/__init__.py", "small = 1\n")
    write("lib/site-packages/small/credentials.json", "not this\n")
    write("lib/site-packages/large/__init__.py", "large = 0\n")
    for i in range(100):
        write(f"lib/site-packages/large/part{i}.py", f"part = {i:2d}\nkey = 'AKIA{'A' * 16}'\n")
    write("lib/site-packages/no_package/data.py", "not this\n")
    library = str(tmp_path / "lib")
    packages = str(tmp_path / "lib" / "site-packages")
    monkeypatch.setattr(
        trigram.sysconfig, "get_paths", lambda: {"stdlib": library, "purelib": packages, "platlib": packages}
    )
    monkeypatch.setattr(trigram, "GENERAL_CHARACTERS", 300)
    texts = list(real_general_texts())
    assert texts[:2] == ["import _abc\n" * 10, "small = 1\n"]
    large = texts[2:]
    assert len(large) == 17  # ten characters each, to fill what is left of the 300
    assert set(large) <= {"large = 0\n", *(f"part = {i:2d}\n" for i in range(100))}
