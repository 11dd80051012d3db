"""`Row`: one row of any source, with the words that point a reader to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rsmi.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column."""

    where: str
    """Where it stands, such as `reviews.csv, row 12 (line 14)`."""
    values: dict[str, object]
    """What stands in each column: strings from CSV and TSV, any JSON or Arrow value from the other formats."""


def strictly(rows: Iterator[Row | DataError]) -> Iterator[Row]:
    """Yield rows up to the first broken one, whose error is raised."""
    for row in rows:
        if isinstance(row, DataError):
            raise row
        yield row
