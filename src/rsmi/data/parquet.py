"""Parquet file -> its columns, its rows, or tables of so many rows, in constant memory whatever its row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rsmi.data.rows import Row
from rsmi.errors import DataError

_BATCH_ROWS: Final = 1024
_BUFFER: Final = 2**20  # bytes of a column read at a time: otherwise a row group, which may be the file, is read whole


def parquet_schema(path: Path) -> Any:
    """Return the names and types of the columns, a `pyarrow.Schema`; each name occurs once."""
    with _opened(path, [0]) as file:
        schema = file.schema_arrow
    _check_names(schema.names, path)
    return schema


def parquet_rows(path: Path) -> Iterator[Row]:
    """Yield row by row."""
    parquet_schema(path)
    number = 0
    for table in parquet_tables(path, _BATCH_ROWS):
        rows: list[dict[str, Any]] = table.to_pylist()
        for values in rows:
            number += 1
            yield Row(f"{path.name}, row {number}", values)


def parquet_tables(path: Path, rows: int, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield tables of exactly `rows` rows, but for the last one; only some columns, if asked."""
    import pyarrow as pa  # here, not above: CSV users need not wait for it

    done = [0]
    with _opened(path, done) as file:
        held = None
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            table = pa.Table.from_batches([batch])
            held = table if held is None else pa.concat_tables([held, table])
            while held.num_rows >= rows:
                yield held.slice(0, rows)
                done[0] += rows
                held = held.slice(rows)
        if held is not None and held.num_rows:
            yield held


@contextmanager
def _opened(path: Path, done: Sequence[int]) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DataError(
            f"{path}: expected a Parquet file, got a damaged one after row {done[0]} ({reason}); write it again"
        ) from error


def _check_names(names: Sequence[str], path: Path) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(
            f"{path}: expected each column name once, got {', '.join(map(repr, twice))} more than once; rename one"
        )
