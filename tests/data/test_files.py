from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi.data import iter_rows, iter_texts, read_file
from rsmi.errors import DataError

SENTENCES = ["a joy, truly", 'he said "no"', "two\nlines", "naïve — 好"]


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def as_csv(delimiter: str) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=delimiter)
    writer.writerows([("text", "label"), *((text, i % 2) for i, text in enumerate(SENTENCES))])
    return buffer.getvalue().encode()


def as_jsonl() -> bytes:
    return b"".join(json.dumps({"text": t, "label": i % 2}).encode() + b"\n" for i, t in enumerate(SENTENCES))


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.csv", as_csv(",")), ("x.tsv", as_csv("\t")), ("x.jsonl", as_jsonl()), ("x.NDJSON", as_jsonl())],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_all_text_formats_read_the_same(tmp_path: Path, name: str, content: bytes, zipped: bool) -> None:
    path = write(tmp_path / (name + ".gz" * zipped), gzip.compress(content) if zipped else content)
    data = read_file(path)
    assert (data.name, data.split, data.source) == ("x", "all", str(path))
    assert data.texts == tuple(SENTENCES)
    assert data.labels == (0, 1, 0, 1)


def test_parquet_is_read_by_batches(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    texts = [f"text {i}" for i in range(3000)]
    pq.write_table(pa.table({"text": texts, "label": pa.array(texts).dictionary_encode()}), path)
    assert read_file(path).labels == tuple(texts)
    assert [row.where for row in iter_rows(path)][-1] == "x.parquet, row 3000"


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).filter(lambda text: text.strip()),
        min_size=1,
    )
)
def test_csv_round_trip_keeps_any_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, "a") for text in texts)])
    assert read_file(path).texts == tuple(texts)


def test_a_byte_order_mark_and_a_pandas_index_are_accepted(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", b"\xef\xbb\xbf,text,label\n0,good,pos\n1,bad,neg\n\n\n")
    assert read_file(path).texts == ("good", "bad")


def test_pairs_and_chosen_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", "a,b,premise,hypothesis,y\n1,2,3,4,5\n")
    assert list(iter_texts(path)) == [("3", "4")]
    data = read_file(path, text_column="b", pair_column="a", label_column="y", name="mine")
    assert (data.name, data.texts, data.labels) == ("mine", (("2", "1"),), (5,))


def test_unlabelled_files_give_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", '{"review": "good"}\n{"review": "bad"}\n')
    assert list(iter_texts(path)) == ["good", "bad"]
    with pytest.raises(DataError, match="pass label_column"):
        read_file(path)


def test_rows_tell_where_they_stand(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", 'text,label\n"one\ntwo",a\nthree,b\n')
    assert [row.where for row in iter_rows(path)] == ["x.csv, row 1 (line 2)", "x.csv, row 2 (line 4)"]


def test_a_huge_text_is_read_and_the_callers_limit_survives(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", f"text,label\n{'x' * 300_000},a\n")
    before = csv.field_size_limit()
    assert len(str(read_file(path).texts[0])) == 300_000
    assert csv.field_size_limit() == before


def test_reading_stops_at_the_first_broken_row_only(tmp_path: Path) -> None:
    rows = iter_rows(write(tmp_path / "x.csv", "text,label\ngood,1\nbad\n"))
    assert next(rows).values == {"text": "good", "label": "1"}
    with pytest.raises(DataError, match=r"x\.csv, row 2 \(line 3\): expected 2 fields .* got 1"):
        next(rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,label\ngood, really,1\n", r"row 1 \(line 2\): expected 2 fields .* got 3"),
        ('text,label\na,1\n"open,1\nb,2\n', r"row 2 \(line 3\): broken quoting .* noticed at line 4"),
        ('text,label\n"a"b,1\n', r"row 1 \(line 2\): broken quoting"),
        ("text,label\na,1\nb\0,2\n", r"row 2 \(line 3\).*NUL"),
        (b"text,label\na,1\nna\xefve,2\n", r"row 2 \(line 3\).*expected UTF-8, got the byte 0xef"),
        ("text,label\n".encode("utf-16"), r"header \(line 1\).*(expected UTF-8|NUL)"),
        ("text,label\na,1\n\nb,2\n", r"row 2 \(line 3\).*blank line"),
        ("text,text,label\na,b,1\n", "'text' more than once"),
        ("\ntext,label\n", "add a header"),
        ("good,1\nbad,0\n", "expected a header with one of the columns"),
        ("", "empty file"),
        ("text,label\n", "got none; add some"),
        ("text,label\n  ,1\n", r"row 1 \(line 2\).*got a blank"),
        ("text,label\na,\n", r"row 1 \(line 2\).*expected a label, got a blank"),
    ],
)
def test_broken_csv_is_refused_by_row(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_file(write(tmp_path / "x.csv", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text": "a", "label": 1}\n{"text": "b"\n', r"row 2 \(line 2\).*broken one"),
        ('{"text": "a", "label": 1}\n[1]\n', r"row 2 \(line 2\): expected a JSON object"),
        ('{"text": "a", "label": 1}\n\n{"text": "b", "label": 1}\n', r"row 2 \(line 2\).*blank line"),
        ('{"text": "a", "label": 1}\n{"text": "b"}\n', r"row 2 \(line 2\): expected a column 'label'"),
        ('{"text": "a", "label": 1}\n{"text": "b", "label": "1"}\n', r"row 2 \(line 2\): expected a label like 1"),
        ('{"text": "a", "label": true}\n', r"row 1 .*got True"),
        ('{"text": "a", "label": NaN}\n', r"row 1 .*got none"),
        ('{"text": 5, "label": 1}\n', r"row 1 .*expected a string in column 'text', got int"),
        ('{"text": null, "label": 1}\n', r"row 1 .*got NoneType"),
        ('{"text": "\\ud800", "label": 1}\n', r"row 1 .*lone surrogate"),
        ('{"text": "a", "text": "b", "label": 1}\n', r"row 1 .*occurs twice"),
        ("[" * 100_000 + "\n", r"row 1 .*broken one"),
        (b'{"text": "\xff", "label": 1}\n', r"row 1 .*0xff"),
        ("\n \n", "empty file"),
    ],
)
def test_broken_jsonl_is_refused_by_row(tmp_path: Path, content: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_file(write(tmp_path / "x.jsonl", content))


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz"])
def test_damaged_gzip_is_refused(tmp_path: Path, name: str) -> None:
    whole = gzip.compress((as_csv(",") if "csv" in name else as_jsonl()) * 50)
    with pytest.raises(DataError, match="end too early"):
        list(iter_rows(write(tmp_path / name, whole[:-20])))
    with pytest.raises(DataError, match="expected gzip data"):
        list(iter_rows(write(tmp_path / name, "text,label\n")))
    with pytest.raises(DataError, match="expected gzip data"):
        list(iter_rows(write(tmp_path / name, whole[:30] + b"\xff" * 30 + whole[60:])))


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["a"], "label": [1]}), path)
    for content in (path.read_bytes()[:-10], b"", b"PAR1"):
        with pytest.raises(DataError, match="expected a Parquet file"):
            list(iter_rows(write(tmp_path / "y.parquet", content)))


def test_parquet_labels_and_names_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"text": ["a", "b"], "label": pa.array([1.0, None])}), path)
    with pytest.raises(DataError, match=r"x\.parquet, row 2: .*got none"):
        read_file(path)
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    with pytest.raises(DataError, match="'text' more than once"):
        read_file(path)


@pytest.mark.parametrize("name", ["x.txt", "x", "x.json", "x.parquet.gz", "x.gz", ".csv"])
def test_unknown_endings_are_refused_with_the_known_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"\.csv, \.tsv, \.jsonl, \.ndjson .* or \.parquet"):
        iter_rows(write(tmp_path / name, "text\n"))


def test_a_mistyped_file_is_told_the_one_that_is_there(tmp_path: Path) -> None:
    write(tmp_path / "mine-train.csv", "text\n")
    write(tmp_path / "mine-trian.txt", "text\n")  # nearer, but no data
    with pytest.raises(DataError, match=r"got no such file; check the path; did you mean 'mine-train\.csv'\?$"):
        iter_rows(tmp_path / "mine-trian.csv")
    for other in (tmp_path / "nowhere" / "mine-trian.csv", tmp_path / "test.csv"):
        with pytest.raises(DataError, match=r"got no such file; check the path$"):
            iter_rows(other)


def test_missing_files_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        iter_rows(tmp_path / "x.csv")
    with pytest.raises(DataError, match="no such file"):
        iter_rows(tmp_path / ("x" * 5000 + ".csv"))
    with pytest.raises(DataError, match="got a folder"):
        iter_rows(tmp_path)


def test_text_and_label_must_differ(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="different columns"):
        read_file(write(tmp_path / "x.csv", "text,label\na,1\n"), text_column="label")
