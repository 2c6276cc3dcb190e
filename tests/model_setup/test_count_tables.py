"""Counts in Parquet tables are those in memory, whoever adds them up and however little memory there is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import DraftlineError
from engine.ngram_count import Counts, count

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

import pyarrow.parquet as pq  # noqa: E402

from model_setup import count_tables  # noqa: E402
from model_setup.count_tables import (  # noqa: E402
    count_tokens,
    duckdb_merge,
    merge_tables,
    read_counts_table,
    read_tokens,
    write_counts_table,
    write_tokens,
)

VOCAB = 5
documents = st.lists(st.lists(st.integers(0, VOCAB - 1), max_size=30), max_size=6).map(
    lambda lists: [np.array(ids, dtype=np.uint32) for ids in lists]
)


def same(one: Counts, other: Counts) -> bool:
    return np.array_equal(one.keys, other.keys) and np.array_equal(one.counts, other.counts)


def tables_of(folder: Path, parts: list[list[np.ndarray]]) -> list[Path]:
    """A table of counts for each part, through tables of tokens."""
    tables = []
    for number, part in enumerate(parts):
        write_tokens(folder / "tokens" / f"{number}.parquet", part)
        tables.append(folder / f"it's {number}.parquet")
        count_tokens(folder / "tokens" / f"{number}.parquet", tables[-1], VOCAB)
    return tables


@given(documents, st.integers(1, 40))
def test_documents_come_back_from_a_table_of_tokens(tmp_path_factory, docs, group):
    path = tmp_path_factory.mktemp("tokens") / "tokens.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_tables, "ROW_GROUP", group)
        write_tokens(path, docs)
    assert [ids.tolist() for ids in read_tokens(path)] == [ids.tolist() for ids in docs]


@settings(max_examples=30, deadline=None)
@given(st.lists(documents, min_size=1, max_size=4), st.integers(1, 9))
def test_sorted_runs_merged_block_by_block_and_by_duckdb_are_the_counts_of_all(
    tmp_path_factory, parts, block
):
    folder = tmp_path_factory.mktemp("counts")
    tables = tables_of(folder, parts)
    wanted = count((document for part in parts for document in part), VOCAB)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(count_tables, "BLOCK", block)
        merge_tables(tables, folder / "merged.parquet")
    duckdb_merge(tables, folder / "summed.parquet")
    assert same(read_counts_table(folder / "merged.parquet"), wanted)
    assert same(read_counts_table(folder / "summed.parquet"), wanted)


def test_duckdb_s_sum_of_a_larger_text_is_ours(tmp_path):
    noise = np.random.default_rng(0)
    parts = [[np.minimum(noise.zipf(1.4, 20_000) - 1, VOCAB - 1)] for _ in range(3)]
    tables = tables_of(tmp_path, parts)
    duckdb_merge(tables, tmp_path / "summed.parquet", memory="100MB")
    wanted = count((document for part in parts for document in part), VOCAB)
    assert same(read_counts_table(tmp_path / "summed.parquet"), wanted)


def test_rare_trigrams_can_be_left_out(tmp_path):
    path = tmp_path / "counts.parquet"
    write_counts_table(path, Counts(np.array([1, 5, 9]), np.array([2, 1, 3])))
    assert same(read_counts_table(path, at_least=2), Counts(np.array([1, 9]), np.array([2, 3])))


def test_a_table_that_is_none_is_refused_and_the_old_sum_stays(tmp_path):
    good, bad, other = (tmp_path / f"{name}.parquet" for name in ("good", "bad", "other"))
    write_counts_table(good, Counts(np.array([1]), np.array([1])))
    bad.write_bytes(b"PAR1 no more")
    pq.write_table(pa.table({"word": ["a"]}), other)
    with pytest.raises(DraftlineError, match="cannot be read as a Parquet table"):
        merge_tables([bad, good], good)
    with pytest.raises(DraftlineError, match="has the columns word; key, count are wanted"):
        merge_tables([good, other], good)
    with pytest.raises(DraftlineError, match="DuckDB cannot add up the counts"):
        duckdb_merge([bad], good)
    assert same(read_counts_table(good), Counts(np.array([1]), np.array([1])))


def test_counts_that_are_not_sorted_are_refused(tmp_path):
    path = tmp_path / "counts.parquet"
    write_counts_table(path, Counts(np.array([2, 1]), np.array([1, 1])))
    with pytest.raises(DraftlineError, match="not sorted by key"):
        read_counts_table(path)


def test_a_table_that_cannot_be_written_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DraftlineError, match="cannot be written"):
        write_counts_table(tmp_path / "file" / "counts.parquet", Counts(np.array([1]), np.array([1])))
