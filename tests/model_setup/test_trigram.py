"""The repository's table knows the repository best, and general code underneath."""

from pathlib import Path

import pytest
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from engine.errors import DraftlineError
from engine.katz import read_counts, write_counts
from engine.ngram import NgramTable
from engine.tokenizer import Tokenizer
from model_setup import trigram
from model_setup.corpus import held_out
from model_setup.generated_texts import GeneratedTexts
from model_setup.trigram import GENERATED_WEIGHT, build_repository_trigram, general_counts

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


@pytest.fixture(autouse=True)
def _small_general_code(monkeypatch):
    monkeypatch.setattr(trigram, "general_texts", lambda: iter(GENERAL))


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
    monkeypatch.setattr(trigram, "general_texts", lambda: pytest.fail("read again"))
    assert build(repository, tokenizer).path.read_bytes() == first


def test_a_table_of_another_tokenizer_is_replaced_by_one_of_this(repository, tokenizer, tmp_path):
    path = build(repository, tokenizer).path
    good = path.read_bytes()
    counts = read_counts(path, tokenizer.fingerprint)
    for table in (path, repository.parent / "general"):
        write_counts(table, counts, tokenizer.vocab_size, "f" * 64)
    assert build(repository, tokenizer).path.read_bytes() == good


def test_a_full_disk_is_told_in_a_sentence_and_leaves_the_old_table(repository, tokenizer, monkeypatch):
    build(repository, tokenizer)
    files = {path: path.read_bytes() for path in repository.parent.iterdir() if path.is_file()}
    (repository / "board.py").write_text(OWN * 2, encoding="utf-8")

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", disk_full)
    with pytest.raises(DraftlineError, match="No space left on device"):
        build(repository, tokenizer)
    assert {path: path.read_bytes() for path in repository.parent.iterdir() if path.is_file()} == files


@pytest.mark.parametrize(
    "damage", [lambda data: data[:100], lambda data: b"?" * len(data), lambda data: data[:-9] + b"?" * 9]
)
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


def test_what_a_model_wrote_is_counted_as_well(repository, tokenizer):
    ids = tokenizer.encode(OWN)
    plain = build(repository, tokenizer)
    before = read_counts(plain.path, tokenizer.fingerprint)
    folder = repository.parent
    written = folder / "written"
    GeneratedTexts(written, tokenizer.fingerprint).append([ids[:2], ids[:3]], [[ids[0], ids[5]], []])
    report = build_repository_trigram(
        repository, tokenizer, folder / "own", folder / "general", written=written
    )
    after = read_counts(report.path, tokenizer.fingerprint)
    assert (plain.written_tokens, report.written_tokens) == (0, 2)
    assert after.tokens == before.tokens + 2 * GENERATED_WEIGHT
    table = NgramTable(report.path, tokenizer.fingerprint)
    assert table.distribution(ids[:1]).sum() == pytest.approx(1, abs=1e-5)


def test_what_another_tokenizer_s_model_wrote_is_left_out(repository, tokenizer, tmp_path):
    GeneratedTexts(tmp_path / "written", "f" * 64).append([[1]], [[2, 3]])
    folder = repository.parent
    report = build_repository_trigram(
        repository, tokenizer, folder / "own", folder / "general", written=tmp_path / "written"
    )
    assert report.written_tokens == 0


def test_an_update_gives_the_table_that_a_first_build_would_and_tokenises_only_what_changed(
    repository, tokenizer
):
    (repository / "stays.py").write_text("stays = 1\n", encoding="utf-8")
    (repository / "goes.py").write_text("goes = 2\n", encoding="utf-8")
    build(repository, tokenizer)
    (repository / "goes.py").unlink()
    (repository / "board.py").write_text(OWN * 2, encoding="utf-8")
    updated = build(repository, tokenizer)
    assert updated.new_tokens == len(tokenizer.encode(OWN * 2))
    table = updated.path.read_bytes()
    for kept in repository.parent.glob("own*"):
        kept.unlink()
    anew = build(repository, tokenizer)
    assert (anew.tokens, anew.new_tokens) == (updated.tokens, updated.tokens)
    assert anew.path.read_bytes() == table


def test_files_held_out_are_not_counted(repository, tokenizer):
    plain = build(repository, tokenizer).path.read_bytes()
    names = [f"part{number}.py" for number in range(60)]
    name = next(name for name in names if held_out(Path(name)))
    (repository / name).write_text("held = out\n", encoding="utf-8")
    report = build(repository, tokenizer)
    assert report.path.read_bytes() == plain
    assert report.corpus.files == 2


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
