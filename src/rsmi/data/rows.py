"""`Row`: one row of any source, with the words that point a reader to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row by column."""

    where: str
    """Where it stands, such as `reviews.csv, row 12 (line 14)`."""
    values: dict[str, object]
    """What stands in each column: strings from CSV and TSV, any JSON or Arrow value from the other formats."""
