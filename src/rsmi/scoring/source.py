"""A file of texts -> chunks of its rows, each row with its text or with what is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from rsmi.data.build import text_of
from rsmi.data.columns import Columns, TextColumns, find_text_columns
from rsmi.data.files import DELIMITERS, format_of, scan_rows
from rsmi.data.parquet import parquet_schema, parquet_tables
from rsmi.data.rows import Row
from rsmi.errors import DataError
from rsmi.records import TextInput

Values: TypeAlias = Any
"""The columns of some rows: a `pyarrow.Table` from Parquet, else a dict for each row, empty for one not readable."""
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some rows that follow each other."""

    number: int
    """Counted from 0."""
    values: Values
    texts: tuple[TextInput | None, ...]
    """One for each row; None where there is none that could be classified."""
    errors: tuple[str | None, ...]
    """What is wrong with each row, naming file and row; None for a good one."""

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def good(self) -> list[TextInput]:
        """The texts that can be classified."""
        return [text for text in self.texts if text is not None]


@dataclass(frozen=True, slots=True)
class Source:
    """A CSV, TSV, JSONL or Parquet file, read a chunk at a time."""

    path: Path
    columns: TextColumns
    rows: int
    """Of a chunk."""

    @classmethod
    def open(cls, path: Path, choice: Columns, rows: int) -> Source:
        """Find the columns of the text.

        Raises:
            DataError: If the file is missing, of an unknown format or without rows, or there is no such column.
        """
        if format_of(path) == ".parquet":
            return cls(path, find_text_columns(parquet_schema(path).names, choice, str(path)), rows)
        readable = (row for row in scan_rows(path) if isinstance(row, Row))
        first = next(readable, None)
        if first is None:
            raise _no_rows(path)
        return cls(path, find_text_columns(first.values, choice, str(path)), rows)

    @property
    def tabular(self) -> bool:
        """Whether rows come as Arrow tables, with types."""
        return format_of(self.path) == ".parquet"

    @property
    def untyped(self) -> bool:
        """Whether all values are strings."""
        return format_of(self.path) in DELIMITERS

    @property
    def schema(self) -> Any:
        """Names and types of the columns of a Parquet file."""
        return parquet_schema(self.path)

    def chunks(self, text_only: bool = False) -> Iterator[Chunk]:
        """Yield all rows; `text_only` leaves out other columns where that saves time."""
        return self._of_tables(text_only) if self.tabular else self._of_rows()

    def digest(self) -> str:
        """Return a hash of the file's content."""
        found = hashlib.blake2b(digest_size=16)
        with self.path.open("rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
        return found.hexdigest()

    def _of_rows(self) -> Iterator[Chunk]:
        rows, number = scan_rows(self.path), 0
        while held := list(islice(rows, self.rows)):
            read = [_read(row, self.columns) for row in held]
            values = [self._kept(row) for row in held]
            yield Chunk(number, values, tuple(text for text, _ in read), tuple(error for _, error in read))
            number += 1

    def _kept(self, row: Row | DataError) -> dict[str, object]:
        """Return the values of a row that go into the result; what should be a text and is none of any kind is not."""
        if isinstance(row, DataError):
            return {}
        texts = (self.columns.text, self.columns.pair)
        return {
            name: None if name in texts and not isinstance(value, str) else value for name, value in row.values.items()
        }

    def _of_tables(self, text_only: bool) -> Iterator[Chunk]:
        names = [name for name in (self.columns.text, self.columns.pair) if name is not None]
        before = 0
        for number, table in enumerate(parquet_tables(self.path, self.rows, names if text_only else None)):
            cells = [table.column(name).to_pylist() for name in names]
            read = [
                _read(Row(f"{self.path.name}, row {before + place}", dict(zip(names, own, strict=True))), self.columns)
                for place, own in enumerate(zip(*cells, strict=True), 1)
            ]
            before += len(read)
            yield Chunk(number, table, tuple(text for text, _ in read), tuple(error for _, error in read))


@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a file finds, before any text of it is classified."""

    rows: int
    bad: int
    """Rows that cannot be classified."""
    names: tuple[str, ...]
    """All columns, in the order in which they are met first."""


def survey(source: Source, stop: bool, *looks: Callable[[Chunk], None]) -> Survey:
    """Read a file once and check every row of it.

    Args:
        source: The file.
        stop: Raise the error of the first bad row instead of counting it.
        looks: Called with every chunk, for whoever must know more about it.

    Raises:
        DataError: What is wrong with the first bad row, if asked; or that there are no rows.
    """
    rows = bad = 0
    names: dict[str, None] = dict.fromkeys(source.schema.names if source.tabular else ())
    for chunk in source.chunks(text_only=source.tabular):
        wrong = [error for error in chunk.errors if error is not None]
        if wrong and stop:
            raise DataError(f"{wrong[0]}; or pass on_error='skip' (--on-error skip) to leave such rows unclassified")
        rows, bad = rows + len(chunk), bad + len(wrong)
        if not source.tabular:
            for values in chunk.values:
                names.update(dict.fromkeys(values))
        for look in looks:
            look(chunk)
    if rows == 0:
        raise _no_rows(source.path)
    return Survey(rows, bad, tuple(names))


def _read(row: Row | DataError, columns: TextColumns) -> tuple[TextInput | None, str | None]:
    if isinstance(row, DataError):
        return None, str(row)
    try:
        return text_of(row, columns), None
    except DataError as error:
        return None, str(error)


def _no_rows(path: Path) -> DataError:
    return DataError(f"{path}: expected rows with a text each, got none that can be read; add some")
