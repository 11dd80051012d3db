"""Rows to be scored, and files of them in every format."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tiny import some_texts

ROWS = [{"id": i, "text": text, "note": f'so-called "note", {i}'} for i, text in enumerate(some_texts(40, seed=5))]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows in the format of the path's ending."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Read a result with a library that is not ours; types of CSV are guessed."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    options = pacsv.ParseOptions(delimiter="\t" if path.suffix == ".tsv" else ",", newlines_in_values=True)
    return pacsv.read_csv(path, parse_options=options).to_pylist()
