"""CSV or TSV lines -> rows, refusing everything the `csv` module would silently repair."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rsmi.data.lines import BrokenLineError, read_lines
from rsmi.data.rows import Row
from rsmi.errors import DataError

_LONGEST_FIELD = 2**27  # characters; far beyond any text, yet an unclosed quote cannot swallow a huge file whole
_limit_lock = threading.Lock()


def read_delimited(path: Path, delimiter: str) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file with a header; blank lines are allowed only at its end.

    Fields may be quoted with `"` as in RFC 4180, in TSV too.

    Raises:
        DataError: For an empty file, a bad header or the first broken row.
    """
    reader = csv.reader(read_lines(path, newline=""), delimiter=delimiter, strict=True)
    header = _next_fields(reader, f"{path.name}, header (line 1)")
    if header is None:
        raise DataError(f"{path}: expected a header and rows, got an empty file")
    _check_header(header, path)
    blank_line: int | None = None
    number = 0
    while True:
        line = reader.line_num + 1
        where = f"{path.name}, row {number + 1} (line {line})"
        fields = _next_fields(reader, where)
        if fields is None:
            return
        if not fields:
            blank_line = blank_line or line
            continue
        if blank_line is not None:
            raise DataError(
                f"{path.name}, row {number + 1} (line {blank_line}): expected {len(header)} fields, got a blank line; "
                "remove it"
            )
        if len(fields) != len(header):
            raise DataError(
                f"{where}: expected {len(header)} fields as in the header, got {len(fields)}; "
                "quote texts that contain the delimiter or a line break"
            )
        number += 1
        yield Row(where, dict(zip(header, fields, strict=True)))


def _next_fields(reader: Any, where: str) -> list[str] | None:
    """Read one record, or None at the end."""
    try:
        fields: list[str] | None = _next_with_room(reader)
    except csv.Error as error:
        raise DataError(
            f"{where}: broken quoting or a field that is too long, noticed at line {reader.line_num} ({error}); "
            'close every quote and double those inside a quoted text ("")'
        ) from error
    except BrokenLineError as error:
        raise DataError(f"{where}, at line {reader.line_num + 1}: {error}") from error
    return fields


def _next_with_room(reader: Any) -> list[str] | None:
    """Read one record with a high field limit.

    The limit (131,072 characters by default) is global to the process and consulted while parsing. It is raised for one
    record at a time and put back, so a caller's own setting survives; the lock keeps two of our readers in different
    threads from putting it back under each other's feet.
    """
    with _limit_lock:
        before = csv.field_size_limit(_LONGEST_FIELD)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(before)


def _check_header(header: list[str], path: Path) -> None:
    # one nameless column is fine: pandas writes its index so
    if not any(name.strip() for name in header):
        raise DataError(f"{path.name}, header (line 1): expected column names, got a blank line; add a header")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise DataError(
            f"{path.name}, header (line 1): expected each column name once, got {', '.join(map(repr, twice))} "
            "more than once; rename one, or add a header if this line is data"
        )
