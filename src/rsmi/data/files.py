"""CSV, TSV, JSONL or Parquet file -> rows, texts or a data set, one row in memory at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rsmi.data.build import Origin, build_dataset, build_texts
from rsmi.data.columns import Columns
from rsmi.data.dataset import TextDataset
from rsmi.data.delimited import scan_delimited
from rsmi.data.lines import BrokenFileError, BrokenLineError, read_lines
from rsmi.data.parquet import parquet_rows
from rsmi.data.rows import Row, strictly
from rsmi.errors import DataError
from rsmi.records import TextInput
from rsmi.settings import nearest

FORMATS: Final = ".csv, .tsv, .jsonl, .ndjson (each also with .gz) or .parquet"
"""The file name endings that can be read, for messages."""
DELIMITERS: Final = {".csv": ",", ".tsv": "\t"}
"""The endings of delimited files, and what parts their fields."""
_JSON_LINES: Final = (".jsonl", ".ndjson")


def has_data_suffix(path: str | Path) -> bool:
    """Whether the file name ends in one of the formats that can be read."""
    return _known_ending(Path(path)) is not None


def iter_rows(path: str | Path) -> Iterator[Row]:
    """Yield the rows of a file in constant memory.

    Raises:
        DataError: At once if the file is missing or of an unknown format, and later at the first broken row.
    """
    return strictly(scan_rows(path))


def scan_rows(path: str | Path) -> Iterator[Row | DataError]:
    """Yield the rows of a file in constant memory, and in the place of each broken row what is wrong with it.

    Raises:
        DataError: At once if the file is missing or of an unknown format, later where it cannot be read any further.
    """
    file = Path(path)
    kind = format_of(file)
    if kind in DELIMITERS:
        return scan_delimited(file, DELIMITERS[kind])
    if kind in _JSON_LINES:
        return _scan_json_lines(file)
    return parquet_rows(file)


def iter_texts(path: str | Path, text_column: str | None = None, pair_column: str | None = None) -> Iterator[TextInput]:
    """Yield the texts (or pairs) of a file that needs no labels, in constant memory.

    Args:
        path: The file.
        text_column: The text, or the first of a pair; found by its name if None.
        pair_column: The second text of a pair; needs `text_column`.
    """
    return build_texts(iter_rows(path), Columns(text=text_column, pair=pair_column), str(path))


def read_file(
    path: str | Path,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    name: str | None = None,
) -> TextDataset:
    """Read a labelled file whole, as the split `all`.

    Args:
        path: The file.
        text_column: The text, or the first of a pair; found by its name if None.
        pair_column: The second text of a pair; needs `text_column`.
        label_column: The class; found by its name if None.
        name: What to call the set; the file's name without its endings if None.
    """
    file = Path(path)
    rows = iter_rows(file)
    kind = format_of(file)
    stem = Path(file.stem).stem if file.suffix.lower() == ".gz" else file.stem
    return build_dataset(
        rows,
        Columns(text=text_column, pair=pair_column, label=label_column),
        Origin(name=stem if name is None else name, split="all", source=str(path)),
        untyped=kind in DELIMITERS,
    )


def _known_ending(path: Path) -> str | None:
    """Return the ending that tells the format, without `.gz`; None if it is not a known one."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    zipped = bool(suffixes) and suffixes[-1] == ".gz"
    kind = (suffixes[:-1] if zipped else suffixes)[-1:]
    if not kind or (zipped and kind[0] == ".parquet"):
        return None
    return kind[0] if kind[0] in (*DELIMITERS, *_JSON_LINES, ".parquet") else None


def format_of(path: Path) -> str:
    """Return the ending that tells the format of a file, without `.gz`, after making sure that the file is there."""
    if os.path.isdir(path):  # unlike Path.is_dir, False for a name too long to exist
        raise DataError(f"{path}: expected a file, got a folder; pass a file in it ending in {FORMATS}")
    kind = _known_ending(path)
    if kind is None:
        raise DataError(f"{path}: expected a file ending in {FORMATS}, got {path.name!r}; convert or rename it")
    if not os.path.exists(path):
        meant = nearest(path.name, _beside(path), likeness=0.8)  # endings alone make names alike
        raise DataError(f"{path}: expected a file ending in {FORMATS}, got no such file; check the path{meant}")
    return kind


def _beside(path: Path) -> list[str]:
    """Return the names of the files of data in the folder where a file should have been."""
    try:
        return [entry.name for entry in os.scandir(path.parent) if has_data_suffix(entry.name) and entry.is_file()]
    except OSError:  # the folder is not there either
        return []


def _scan_json_lines(path: Path) -> Iterator[Row | DataError]:
    blank: int | None = None
    found = False
    lines = read_lines(path, newline="\n")
    number = 0
    while True:
        number += 1
        where = f"{path.name}, row {number} (line {number})"
        try:
            line = next(lines, None)
        except BrokenLineError as error:
            broken = DataError(f"{where}: {error}")
            if isinstance(error, BrokenFileError):
                raise broken from error
            found = True
            yield broken
            continue
        if line is None:
            break
        if not line.strip():
            blank = blank or number
            continue
        if blank is not None:
            yield DataError(f"{path.name}, row {blank} (line {blank}): expected an object, got a blank line; remove it")
            blank = None
        found = True
        try:
            row: Row | DataError = Row(where, _parse_object(line, where))
        except DataError as error:
            row = error
        yield row
    if not found:
        raise DataError(f"{path}: expected one JSON object a line, got an empty file")


def _parse_object(line: str, where: str) -> dict[str, object]:
    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values = dict(pairs)
        if len(values) != len(pairs):
            raise ValueError("a key occurs twice in one object")
        return values

    try:
        value = json.loads(line, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: expected one JSON object, got a broken one ({error}); repair the line") from error
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise DataError(f'{where}: expected a JSON object such as {{"text": "..."}}, got {kind}; repair the line')
    return value
