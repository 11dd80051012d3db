"""Rows with their predictions -> Parquet, with the types of the columns kept or found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rsmi.errors import DataError
from rsmi.scoring.answers import Cells, Column
from rsmi.scoring.source import Chunk

_GROUP_ROWS: Final = 2**16
_GROUP_BYTES: Final = 2**24  # a row group of the result is written once it holds that many rows or bytes


@dataclass(frozen=True, slots=True)
class TableFormat:
    """Parquet. Every part is a small file of its own; joined, they share larger row groups."""

    schema: Any
    """Of the file's own columns."""
    added: tuple[Column, ...]

    def write(self, path: Path, chunk: Chunk, added: Sequence[Cells]) -> None:
        """Write one part."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        own = chunk.values
        if isinstance(own, list):
            columns = [pa.array([row.get(field.name) for row in own], field.type) for field in self.schema]
            own = pa.Table.from_arrays(columns, schema=self.schema)
        for place, column in enumerate(self.added):
            field = pa.field(column.name, column.kind)
            own = own.append_column(field, pa.array([cells[place] for cells in added], field.type))
        pq.write_table(own, path)

    def join(self, parts: Iterable[Path], path: Path) -> None:
        """Write the file that parts make, one row group in memory at a time."""
        import pyarrow.parquet as pq

        groups = _groups(parts)
        first = next(groups)
        with pq.ParquetWriter(path, first.schema) as whole:
            whole.write_table(first)
            for group in groups:
                whole.write_table(group)


class Types:
    """Finds the type of every column of JSON rows, a chunk at a time."""

    def __init__(self, origin: Path) -> None:
        self._origin = origin
        self._known: Any = None

    def look(self, chunk: Chunk) -> None:
        """Take the values of some rows into account.

        Raises:
            DataError: If a column holds values that have no common type.
        """
        import pyarrow as pa

        names = dict.fromkeys(name for row in chunk.values for name in row)
        found = pa.schema([pa.field(name, self._type_of(name, chunk.values)) for name in names])
        try:
            whole = [found] if self._known is None else [self._known, found]
            self._known = pa.unify_schemas(whole, promote_options="permissive")
        except pa.ArrowException as error:
            raise self._mixed(str(error)) from error

    def schema(self) -> Any:
        """Return the names and types found, once it is sure that Parquet can hold them."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetWriter(pa.BufferOutputStream(), self._known):
                return self._known
        except pa.ArrowException as error:
            raise self._mixed(str(error)) from error

    def _type_of(self, name: str, rows: Sequence[dict[str, Any]]) -> Any:
        import pyarrow as pa

        try:
            return pa.array([row.get(name) for row in rows]).type
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError) as error:
            raise self._mixed(f"column {name!r}: {error}") from error

    def _mixed(self, reason: str) -> DataError:
        return DataError(
            f"{self._origin}: expected values of one type in each column, as Parquet needs them, got {reason.strip()}; "
            "write to .jsonl"
        )


def _groups(parts: Iterable[Path]) -> Iterator[Any]:
    """Yield the parts' tables put together, each large enough for a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    held: list[Any] = []
    for part in parts:
        with pq.ParquetFile(part) as file:  # not read_table, which takes a folder named a=b for a column
            held.append(file.read())
        if sum(own.num_rows for own in held) >= _GROUP_ROWS or sum(own.nbytes for own in held) >= _GROUP_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)
