"""Counts as plain Parquet tables, for more text than fits into memory or than one machine should read.

    tokens    one row a document: tokens list<uint32>
    counts    key int64, count int64: a trigram packed as in `engine.ngram_count`, and how often it was read

Counting is three steps that anything can run which reads Parquet. Each table of tokens becomes a table of
counts, sorted by key (`count_tokens`: the map of Ray or Spark). These are added up: here as sorted runs, of
which only a block each is in memory (`merge_tables`), or by any engine that groups and sums, as DuckDB on
one machine (`duckdb_merge`) or Spark on many:

    SELECT key, sum("count") AS "count" FROM counts GROUP BY key ORDER BY key

The sum is read back and written as the table that the decoder maps (`read_counts_table`, then
`engine.katz.write_counts`). That last step is done in memory; ``at_least`` leaves rare trigrams out.

Needs the extra ``scale``: pip install 'draftline[scale]'.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from engine.errors import DraftlineError
from engine.ngram_count import Counts, count, merge

COUNTS = pa.schema([("key", pa.int64()), ("count", pa.int64())])
TOKENS = pa.schema([("tokens", pa.list_(pa.uint32()))])
BLOCK = 1 << 17  # rows of each run in memory while they are merged
ROW_GROUP = 1 << 20  # tokens


def write_tokens(path: Path, documents: Iterable[NDArray[Any]]) -> None:
    """Write the token ids of ``documents``, one row each.

    Raises:
        DraftlineError: ``path`` cannot be written.
    """
    with _writer(path, TOKENS) as writer:
        group: list[NDArray[Any]] = []
        for document in documents:
            group.append(document)
            if sum(map(len, group)) >= ROW_GROUP:
                writer.write_table(_token_rows(group))
                group = []
        writer.write_table(_token_rows(group))


def _token_rows(documents: Sequence[NDArray[Any]]) -> pa.Table:
    offsets = np.cumsum([0, *map(len, documents)], dtype=np.int32)
    ids = np.concatenate([np.empty(0, dtype=np.uint32), *documents]).astype(np.uint32)
    return pa.Table.from_arrays([pa.ListArray.from_arrays(offsets, ids)], schema=TOKENS)


def read_tokens(path: Path) -> Iterator[NDArray[np.uint32]]:
    with _opened(path, TOKENS) as file:
        for batch in file.iter_batches(batch_size=256):
            for row in batch.column(0):
                yield row.values.to_numpy()


def count_tokens(tokens: Path, counts: Path, vocab_size: int) -> None:
    """Count one table of tokens into a table of counts, sorted by key.

    Raises:
        DraftlineError: ``tokens`` is no such table, or ``counts`` cannot be written.
    """
    write_counts_table(counts, count(read_tokens(tokens), vocab_size))


def write_counts_table(path: Path, counts: Counts) -> None:
    with _writer(path, COUNTS) as writer:
        writer.write_table(_count_rows(counts))


def _count_rows(counts: Counts) -> pa.Table:
    return pa.Table.from_arrays([pa.array(counts.keys), pa.array(counts.counts)], schema=COUNTS)


def read_counts_table(path: Path, at_least: int = 1) -> Counts:
    """at_least: how often a trigram must have been read to be there.

    Raises:
        DraftlineError: it is no such table, or not sorted.
    """
    with _opened(path, COUNTS) as file:
        table = file.read()
    keys, counts = table["key"].to_numpy(), table["count"].to_numpy()
    if (keys[1:] <= keys[:-1]).any():
        raise DraftlineError(f"The counts in {path} are not sorted by key, or not summed; do that first.")
    kept = counts >= at_least
    return Counts(keys[kept], counts[kept])


def merge_tables(tables: Sequence[Path], path: Path) -> None:
    """Add up ``tables``, each sorted by key, into ``path``; in memory are a BLOCK of each and their sum.

    Raises:
        DraftlineError: one of them is no such table, or ``path`` cannot be written.
    """
    with contextlib.ExitStack() as stack:
        runs = [_Run(stack.enter_context(_opened(table, COUNTS))) for table in tables]
        writer = stack.enter_context(_writer(path, COUNTS))
        while runs := [run for run in runs if run.fill()]:
            # up to the least of the blocks' last keys, no later block can hold more of a key
            bound = min(run.last for run in runs)
            writer.write_table(_count_rows(merge([run.take(bound) for run in runs])))


class _Run:
    """A sorted table, read block by block."""

    def __init__(self, file: pq.ParquetFile) -> None:
        self._batches = file.iter_batches(batch_size=BLOCK)
        self._block = Counts(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    @property
    def last(self) -> int:
        return int(self._block.keys[-1])

    def fill(self) -> bool:
        """Read the next block if there is nothing left of this one; False at the end."""
        while len(self._block.keys) == 0:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._block = Counts(batch.column(0).to_numpy(), batch.column(1).to_numpy())
        return True

    def take(self, bound: int) -> Counts:
        """What is left of the block up to the key ``bound``."""
        end = int(np.searchsorted(self._block.keys, bound, side="right"))
        taken = Counts(self._block.keys[:end], self._block.counts[:end])
        self._block = Counts(self._block.keys[end:], self._block.counts[end:])
        return taken


def duckdb_merge(tables: Sequence[Path], path: Path, memory: str = "1GB", threads: int = 1) -> None:
    """Add up ``tables`` into ``path`` with DuckDB, which spills to ``path``'s folder what exceeds ``memory``.

    The process has a little more: for 100M tokens in 25 runs, 1.12 GB at most with 1GB and 0.93 with 800MB.
    Either took 18 s of a processor core, and `merge_tables` 8.5 s and 0.57 GB.

    Raises:
        DraftlineError: DuckDB says that it cannot be done.
    """
    import duckdb

    with _beside(path) as new, duckdb.connect() as database:
        try:
            database.execute(f"SET memory_limit = {_quoted(memory)}; SET threads = {threads}")
            database.execute(f"SET temp_directory = {_quoted(path.with_name(f'.{path.name}.spill'))}")
            runs = ", ".join(map(_quoted, tables))
            database.execute(
                f'COPY (SELECT key, sum("count")::BIGINT AS "count" FROM read_parquet([{runs}]) '
                f"GROUP BY key ORDER BY key) TO {_quoted(new)} (FORMAT parquet, COMPRESSION zstd)"
            )
        except duckdb.Error as error:
            raise DraftlineError(f"DuckDB cannot add up the counts ({error}).") from error


def _quoted(value: object) -> str:
    """As a literal of SQL."""
    return "'" + str(value).replace("'", "''") + "'"


@contextlib.contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A place to write in, which takes the place of ``path`` when all went well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    try:
        yield new
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def _writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    try:
        with _beside(path) as new, pq.ParquetWriter(new, schema, compression="zstd") as writer:
            yield writer
    except OSError as error:
        raise DraftlineError(f"The table {path} cannot be written ({error}); make room for it.") from error


@contextlib.contextmanager
def _opened(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise DraftlineError(f"{path} cannot be read as a Parquet table ({error}).") from error
    with file:
        if file.schema_arrow.names != schema.names:
            raise DraftlineError(
                f"{path} has the columns {', '.join(file.schema_arrow.names)}; {', '.join(schema.names)} are "
                "wanted."
            )
        yield file
