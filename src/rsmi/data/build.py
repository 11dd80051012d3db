"""Rows -> texts, and rows -> a `TextDataset`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from rsmi.data.columns import Columns, TextColumns, find_label_column, find_text_columns
from rsmi.data.dataset import TextDataset
from rsmi.data.labels import labels_from_strings, labels_from_values
from rsmi.data.rows import Row
from rsmi.errors import DataError
from rsmi.records import Label, TextInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a data set is called and where it came from."""

    name: str
    """Short name of the set."""
    split: str
    """Which part of it."""
    source: str
    """Where the rows came from, for reports and error messages."""


def build_texts(rows: Iterator[Row], choice: Columns, source: str) -> Iterator[TextInput]:
    """Yield the text or pair of each row, without keeping any; the columns are found in the first row."""
    first = next(rows, None)
    if first is None:
        return
    columns = find_text_columns(first.values, choice, source)
    for row in chain([first], rows):
        yield text_of(row, columns)


def build_dataset(rows: Iterator[Row], choice: Columns, origin: Origin, *, untyped: bool) -> TextDataset:
    """Collect labelled rows; the columns are found in the first one.

    Args:
        rows: The rows, from any source.
        choice: Columns the user asked for.
        origin: Name, split and source of the set.
        untyped: Whether all values are strings, as in CSV and TSV, so that labels written as numbers are numbers.
    """
    first = next(rows, None)
    if first is None:
        raise DataError(f"{origin.source}: expected rows of text and label, got none; add some")
    text_columns = find_text_columns(first.values, choice, origin.source)
    label_column = find_label_column(first.values, choice, origin.source)
    if label_column in (text_columns.text, text_columns.pair):
        raise DataError(
            f"{origin.source}: expected text and label in different columns, got {label_column!r} for both; "
            "pass another label_column"
        )
    texts: list[TextInput] = []
    values: list[object] = []
    wheres: list[str] = []
    for row in chain([first], rows):
        texts.append(text_of(row, text_columns))
        values.append(_value(row, label_column))
        wheres.append(row.where)
    labels = _labels_of(values, wheres, untyped)
    return TextDataset(
        name=origin.name,
        split=origin.split,
        texts=tuple(texts),
        labels=labels,
        source=origin.source,
        columns=tuple(name for name in (text_columns.text, text_columns.pair) if name is not None),
    )


def _labels_of(values: Sequence[object], wheres: Sequence[str], untyped: bool) -> tuple[Label, ...]:
    if untyped:
        return labels_from_strings([str(value) for value in values], wheres)
    return labels_from_values(values, wheres)


def text_of(row: Row, columns: TextColumns) -> TextInput:
    """Return the text or pair of a row.

    Raises:
        DataError: If there is none; the message names the file and the row.
    """
    text = _checked_text(row, columns.text)
    return text if columns.pair is None else (text, _checked_text(row, columns.pair))


def _checked_text(row: Row, column: str) -> str:
    value = _value(row, column)
    if not isinstance(value, str):
        raise DataError(
            f"{row.where}: expected a string in column {column!r}, got {type(value).__name__}; "
            "fill in the text or remove the row"
        )
    if not value.strip():
        raise DataError(f"{row.where}: expected a text in column {column!r}, got a blank; fill it in or remove the row")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise DataError(
            f"{row.where}: expected valid Unicode in column {column!r}, got a lone surrogate; repair the text"
        )
    return value


def _value(row: Row, column: str) -> object:
    if column not in row.values:
        raise DataError(
            f"{row.where}: expected a column {column!r} as in the first row, got none; fill it in or remove the row"
        )
    return row.values[column]
