"""Rows with their predictions -> lines of a CSV, TSV or JSONL file."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmi.errors import DataError
from rsmi.scoring.answers import Cells, Column
from rsmi.scoring.source import Chunk


@dataclass(frozen=True, slots=True)
class LinesFormat:
    """CSV, TSV or JSONL. Parts are lines, so joining them is putting them one after the other."""

    names: tuple[str, ...]
    """The file's own columns."""
    added: tuple[Column, ...]
    delimiter: str | None
    """What parts the fields; None for JSONL."""
    origin: Path
    """Where the rows come from, for messages."""

    def write(self, path: Path, chunk: Chunk, added: Sequence[Cells]) -> None:
        """Write one part."""
        own = chunk.values if isinstance(chunk.values, list) else plain_table(chunk.values, self.origin).to_pylist()
        encode = self._json if self.delimiter is None else self._delimited
        path.write_bytes(b"".join(encode(values, cells) for values, cells in zip(own, added, strict=True)))

    def join(self, parts: Iterable[Path], path: Path) -> None:
        """Write the file that parts make, in constant memory."""
        with path.open("wb") as whole:
            if self.delimiter is not None:
                whole.write(self._fields([*self.names, *(column.name for column in self.added)]))
            for part in parts:
                with part.open("rb") as piece:
                    shutil.copyfileobj(piece, whole)

    def check(self, chunk: Chunk) -> None:
        """Refuse values that are not Unicode: CSV has no way to write them, JSON has."""
        for row in chunk.values:
            for name, value in row.items():
                try:
                    _cell(value).encode()
                except UnicodeEncodeError as error:
                    raise DataError(
                        f"{self.origin}: expected valid Unicode in column {name!r}, got a lone surrogate in "
                        f"{_cell(value)[:40]!r}; repair it, or write to .jsonl"
                    ) from error

    def _json(self, own: Mapping[str, Any], cells: Cells) -> bytes:
        named = {column.name: cell for column, cell in zip(self.added, cells, strict=True)}
        values = {**own, **named}
        try:
            return (json.dumps(values, ensure_ascii=False, default=str) + "\n").encode()
        except UnicodeEncodeError:  # a lone surrogate has no UTF-8, but a JSON escape
            return (json.dumps(values, default=str) + "\n").encode()

    def _delimited(self, own: Mapping[str, Any], cells: Cells) -> bytes:
        return self._fields([*(_cell(own.get(name)) for name in self.names), *map(_cell, cells)])

    def _fields(self, fields: Sequence[str]) -> bytes:
        line = io.StringIO(newline="")
        csv.writer(line, delimiter=self.delimiter or ",", lineterminator="\n").writerow(fields)
        return line.getvalue().encode()


def plain_table(table: Any, origin: Path) -> Any:
    """Return a table whose values JSON knows: dates and decimals as strings, the rest as it is.

    Raises:
        DataError: For a column, such as one of bytes, that has no such form.
    """
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if not _is_plain(field.type):
            try:
                if _holds_bytes(field.type):  # arrow would take them for UTF-8, and stop at the first that is not
                    raise pa.ArrowNotImplementedError("bytes are no text")
                column = table.column(place).cast(pa.string())
            except pa.ArrowException as error:
                raise DataError(
                    f"{origin}: expected columns of text, numbers or dates, got {field.name!r} of type {field.type}, "
                    "which CSV and JSON cannot hold; write to .parquet"
                ) from error
            table = table.set_column(place, field.name, column)
    return table


def _is_plain(kind: Any) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    if types.is_nested(kind):
        return not _holds_bytes(kind)
    simple = (types.is_null, types.is_boolean, types.is_integer, types.is_floating)
    return any(test(kind) for test in simple) or "string" in str(kind)


def _holds_bytes(kind: Any) -> bool:
    if kind.num_fields:
        return any(_holds_bytes(kind.field(i).type) for i in range(kind.num_fields))
    return "binary" in str(kind)


def _cell(value: Any) -> str:
    """Return a value as a field of a CSV file: nothing is empty, what is neither text nor number is JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
