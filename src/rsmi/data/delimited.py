"""CSV or TSV lines -> rows, refusing everything the `csv` module would silently repair."""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rsmi.data.lines import BrokenFileError, BrokenLineError, read_lines
from rsmi.data.rows import Row
from rsmi.errors import DataError

_LONGEST_FIELD = 2**27  # characters; far beyond any text, yet an unclosed quote cannot swallow a huge file whole
_limit_lock = threading.Lock()


def scan_delimited(path: Path, delimiter: str) -> Iterator[Row | DataError]:
    """Yield the rows of a CSV or TSV file with a header, and in the place of each broken row what is wrong with it.

    Fields may be quoted with `"` as in RFC 4180, in TSV too. Blank lines are allowed only at the end. What follows a
    broken quote may be part of a text that should have been quoted: it is read as rows, which are broken then, too.

    Raises:
        DataError: For an empty file, a bad header, or where the file cannot be read any further.
    """
    reader = csv.reader(read_lines(path, newline=""), delimiter=delimiter, strict=True)
    header = _next_fields(reader, f"{path.name}, header (line 1)")
    if isinstance(header, DataError):
        raise header
    if header is None:
        raise DataError(f"{path}: expected a header and rows, got an empty file")
    _check_header(header, path)
    blank_line: int | None = None
    number, unread = 0, 0
    while True:
        line = reader.line_num + unread + 1
        row = number + (1 if blank_line is None else 2)
        fields = _next_fields(reader, f"{path.name}, row {row} (line {line})", unread)
        if fields is None:
            return
        if fields == []:
            blank_line = blank_line or line
            continue
        if blank_line is not None:
            number += 1
            yield DataError(
                f"{path.name}, row {number} (line {blank_line}): expected {len(header)} fields, got a blank line; "
                "remove it"
            )
            blank_line = None
        number += 1
        where = f"{path.name}, row {number} (line {line})"
        if isinstance(fields, DataError):
            unread += isinstance(fields.__cause__, BrokenLineError)  # the reader does not count what it did not get
            yield fields
        elif len(fields) != len(header):
            yield DataError(
                f"{where}: expected {len(header)} fields as in the header, got {len(fields)}; "
                "quote texts that contain the delimiter or a line break"
            )
        else:
            yield Row(where, dict(zip(header, fields, strict=True)))


def _next_fields(reader: Any, where: str, unread: int = 0) -> list[str] | DataError | None:
    """Read one record, or None at the end; a broken one is returned as its error if there may be more after it."""
    try:
        fields: list[str] | None = _next_with_room(reader)
    except csv.Error as error:
        line = reader.line_num + unread
        broken = DataError(
            f"{where}: broken quoting or a field that is too long, noticed at line {line} ({error}); "
            'close every quote and double those inside a quoted text ("")'
        )
        broken.__cause__ = error
        return broken
    except BrokenLineError as error:
        broken = DataError(f"{where}, at line {reader.line_num + unread + 1}: {error}")
        broken.__cause__ = error
        if isinstance(error, BrokenFileError):
            raise broken from error
        return broken
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
