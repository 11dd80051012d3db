"""Rows handed on beside those that are broken."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmi.data.files import iter_rows, scan_rows
from rsmi.data.parquet import parquet_tables
from rsmi.data.rows import Row
from rsmi.errors import DataError


def scanned(path: Path) -> list[str]:
    """The first column of each good row, and for a broken one its error."""
    return [next(iter(row.values.values())) if isinstance(row, Row) else f"! {row}" for row in scan_rows(path)]


CSV = b"""text,n
good,1
too,many,fields
"bro"ken,4
bad \xff byte,5

nul \0 byte,7
fine,8
"two
lines",9
last,10
"""


def test_every_broken_row_of_a_csv_file_keeps_its_place_and_says_its_line(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(CSV)
    found = scanned(tmp_path / "x.csv")
    expected = [
        "good",
        "! x.csv, row 2 (line 3): expected 2 fields as in the header, got 3",
        "! x.csv, row 3 (line 4): broken quoting",
        "! x.csv, row 4 (line 5), at line 5: expected UTF-8, got the byte 0xff",
        "! x.csv, row 5 (line 6): expected 2 fields, got a blank line",
        "! x.csv, row 6 (line 7), at line 7: expected text, got a NUL byte",
        "fine",
        "two\nlines",
        "last",
    ]
    assert [own[: len(start)] for own, start in zip(found, expected, strict=True)] == expected
    wheres = [row.where for row in scan_rows(tmp_path / "x.csv") if isinstance(row, Row)]
    assert wheres == [
        "x.csv, row 1 (line 2)",
        "x.csv, row 7 (line 8)",
        "x.csv, row 8 (line 9)",
        "x.csv, row 9 (line 11)",
    ]


def test_every_broken_line_of_json_keeps_its_place(tmp_path: Path) -> None:
    lines = [
        b'{"text": "good"}',
        b"{",
        b"[1]",
        b'{"text": "\xff"}',
        b"",
        b'{"a": 1, "a": 2}',
        b'{"text": "last"}',
        b"",
        b"",
    ]
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(lines))
    found = scanned(tmp_path / "x.jsonl")
    assert (found[0], found[-1], len(found)) == ("good", "last", 7)
    for place, own in enumerate(found[1:-1], 2):
        assert own.startswith(f"! x.jsonl, row {place} (line {place}): ")


def test_reading_strictly_stops_where_scanning_goes_on(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(CSV)
    rows = iter_rows(tmp_path / "x.csv")
    assert next(rows).values["text"] == "good"
    with pytest.raises(DataError, match="row 2"):
        next(rows)
    assert list(rows) == []


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz"])
def test_a_file_that_cannot_be_read_any_further_is_an_error_not_an_end(tmp_path: Path, name: str) -> None:
    line = "good,1\n" if "csv" in name else '{"text": "good"}\n'
    whole = gzip.compress((("text,n\n" if "csv" in name else "") + line * 50_000).encode())
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="the gzip data end too early"):
        list(scan_rows(tmp_path / name))


@pytest.mark.parametrize("rows", [1, 3, 7, 10, 100])
def test_tables_have_as_many_rows_as_asked_whatever_the_row_groups(tmp_path: Path, rows: int) -> None:
    whole = pa.table({"text": [f"text {i}" for i in range(20)], "n": range(20)})
    pq.write_table(whole, tmp_path / "x.parquet", row_group_size=6)
    tables = list(parquet_tables(tmp_path / "x.parquet", rows))
    assert [table.num_rows for table in tables[:-1]] == [rows] * (len(tables) - 1)
    assert pa.concat_tables(tables).equals(whole)
    named = pa.concat_tables(parquet_tables(tmp_path / "x.parquet", rows, ["text"]))
    assert named.equals(whole.select(["text"]))
