"""Files in, files with predictions out: every format, bad rows, names that are taken, interrupted runs."""

from __future__ import annotations

import resource
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rsmi import RsmiClassifier, score_file, under_attack
from rsmi.errors import ConfigError, DataError, NotFittedError, WorkerError
from scored_files import ROWS, read_rows, write_rows
from toy import CONFIG

ENDINGS = [".csv", ".tsv", ".jsonl", ".parquet"]
ADDED = ["label", "probability_neg", "probability_pos", "escalated", "abstained", "truncated", "copies", "under_attack"]


def expected(clf, rows=ROWS):
    """What each row must be in the end, by way of `explain`."""
    found = []
    for row, own in zip(rows, clf.explain([row["text"] for row in rows]), strict=True):
        shares = {f"probability_{label}": share for label, share in own.probabilities.items()}
        flags = {name: getattr(own, name) for name in ("escalated", "abstained", "truncated", "copies")}
        found.append({**row, "label": own.label, **shares, **flags, "under_attack": round(under_attack(own), 6)})
    return found


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("written", ENDINGS)
def test_every_format_becomes_every_format(clf, tmp_path, ending, written):
    file, out = write_rows(tmp_path / f"in{ending}", ROWS), tmp_path / f"out{written}"
    scored = score_file(clf, file, out, chunk_rows=7)
    assert scored.to_dict() == {"out": str(out), "rows": 40, "skipped": 0, "resumed": 0}
    found, wanted = read_rows(out), expected(clf)
    if written in (".jsonl", ".parquet") and ending in (".csv", ".tsv"):  # there all values are strings
        wanted = [{**row, "id": str(row["id"])} for row in wanted]
    assert found == wanted
    assert list(found[0]) == ["id", "text", "note", *ADDED]
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name, out.name]


def test_the_result_does_not_depend_on_the_chunks_but_for_their_bits(clf, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    for rows in (1, 9, 40, 1000):
        score_file(clf, file, tmp_path / f"{rows}.jsonl", chunk_rows=rows)
        found = read_rows(tmp_path / f"{rows}.jsonl")
        assert [row["label"] for row in found] == [row["label"] for row in expected(clf)]
        assert [row["probability_pos"] for row in found] == [row["probability_pos"] for row in expected(clf)]


def test_types_and_metadata_of_parquet_are_kept(clf, tmp_path):
    texts = [row["text"] for row in ROWS]
    schema = pa.schema(
        [
            pa.field("when", pa.timestamp("ns", "UTC")),
            pa.field("raw", pa.binary()),
            pa.field("kind", pa.dictionary(pa.int8(), pa.string())),
            pa.field("tags", pa.list_(pa.struct([("a", pa.int16())]))),
            pa.field("text", pa.large_string()),
        ],
        metadata={"made": "by a test"},
    )
    columns = [range(40), [b"\xff"] * 40, ["x", "y"] * 20, [[{"a": 1}], None] * 20, texts]
    table = pa.table([pa.array(own, field.type) for own, field in zip(columns, schema, strict=True)], schema=schema)
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=11)
    score_file(clf, tmp_path / "in.parquet", tmp_path / "out.parquet", chunk_rows=6)
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.select(table.column_names).cast(table.schema).equals(table)
    assert found.schema.names[5:] == ADDED
    assert found.schema.metadata[b"made"] == b"by a test"
    assert found.schema.field("copies").type == pa.int64()
    assert found.schema.field("escalated").type == pa.bool_()


def test_dates_become_text_and_bytes_are_refused_where_json_cannot_hold_them(clf, tmp_path):
    base = {"text": [row["text"] for row in ROWS[:3]]}
    table = pa.table({**base, "day": pa.array([1, 2, None], pa.date32()), "deep": [[1], [], None]})
    pq.write_table(table, tmp_path / "dates.parquet")
    score_file(clf, tmp_path / "dates.parquet", tmp_path / "out.jsonl")
    assert [(row["day"], row["deep"]) for row in read_rows(tmp_path / "out.jsonl")] == [
        ("1970-01-02", [1]),
        ("1970-01-03", []),
        (None, None),
    ]
    for kind, value in ((pa.binary(), b"x"), (pa.list_(pa.binary()), [b"x"])):
        pq.write_table(pa.table({**base, "raw": pa.array([value] * 3, kind)}), tmp_path / "raw.parquet")
        with pytest.raises(DataError, match=r"'raw' of type .*write to \.parquet"):
            score_file(clf, tmp_path / "raw.parquet", tmp_path / "raw.csv")
        assert not (tmp_path / "raw.csv.parts").exists()


def test_json_rows_that_differ_become_one_table(clf, tmp_path):
    rows = [{"text": "good film"}, {"text": "bad film", "n": 1}, {"n": 0.5, "text": "dull", "m": {"a": [1]}}]
    file = write_rows(tmp_path / "in.jsonl", rows)
    score_file(clf, file, tmp_path / "out.parquet", chunk_rows=1)
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column("n").to_pylist() == [None, 1.0, 0.5]
    assert found.column("m").to_pylist() == [None, None, {"a": [1]}]
    score_file(clf, file, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[3].startswith('dull,0.5,"{""a"": [1]}",')
    score_file(clf, file, tmp_path / "out.jsonl")
    assert "n" not in read_rows(tmp_path / "out.jsonl")[0]  # what a row lacks it lacks


@pytest.mark.parametrize("values", [(1, "one"), (True, [1]), (2**70, 1), ({}, {})])
def test_json_values_without_a_common_type_are_refused_before_anything_is_classified(clf, tmp_path, values):
    rows = [{"text": "good film", "n": value} for value in values]
    file = write_rows(tmp_path / "in.jsonl", rows)
    with pytest.raises(DataError, match=r"one type in each column.*write to \.jsonl"):
        score_file(clf, file, tmp_path / "out.parquet")
    score_file(clf, file, tmp_path / "out.jsonl")
    assert [row["n"] for row in read_rows(tmp_path / "out.jsonl")] == list(values)


def test_what_is_not_unicode_in_another_column_is_kept_by_json_and_refused_by_others(clf, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "good film", "note": "\\ud800"}\n')
    score_file(clf, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert read_rows(tmp_path / "out.jsonl")[0]["note"] == "\ud800"
    for ending in (".csv", ".parquet"):
        with pytest.raises(DataError, match="note"):
            score_file(clf, tmp_path / "in.jsonl", tmp_path / f"out{ending}")


def test_pairs_are_scored(clf, tmp_path):
    file = write_rows(tmp_path / "in.csv", [{"premise": "good film", "hypothesis": "dull plot", "q": "x"}] * 3)
    score_file(clf, file, tmp_path / "out.jsonl")
    assert read_rows(tmp_path / "out.jsonl")[0]["label"] == clf.predict([("good film", "dull plot")])[0]
    score_file(clf, file, tmp_path / "other.jsonl", text_column="q", pair_column="premise")
    assert read_rows(tmp_path / "other.jsonl")[0]["label"] == clf.predict([("x", "good film")])[0]


def test_a_text_that_is_cut_and_a_vote_that_abstains_say_so(model, tmp_path):
    unsure = replace(CONFIG, stop="sequential", stop_confidence=0.999999, first_votes=1, second_votes=2)
    classifier = RsmiClassifier.from_pretrained(model, unsure, seed=0, progress=False)
    file = write_rows(tmp_path / "in.csv", [{"text": "good film " * 40}, {"text": "bad"}])
    for ending in ENDINGS:
        score_file(classifier, file, tmp_path / f"out{ending}")
        rows = read_rows(tmp_path / f"out{ending}")
        assert [row["truncated"] for row in rows] == [True, False]
        assert [row["abstained"] for row in rows] == [True, True]
        assert [row["label"] or None for row in rows] == [None, None]  # CSV has no other word for nothing


def test_classes_that_are_numbers_stay_numbers(tiny_folder, tmp_path):
    base = tiny_folder("bert", num_layers=2, dropout=0.0)
    numbered = RsmiClassifier.from_pretrained(base, CONFIG, classes=[7, 3], seed=0, progress=False)
    score_file(numbered, write_rows(tmp_path / "in.csv", ROWS), tmp_path / "out.parquet")
    found = pq.read_table(tmp_path / "out.parquet")
    assert found.column("label").to_pylist() == numbered.predict([row["text"] for row in ROWS]).tolist()
    assert {"probability_7", "probability_3"} <= set(found.column_names)


BAD = {
    ".csv": ('text,n\ngood film,1\n"  ",2\nbad film\ndull "film",4\n"bro"ken,5\nfine,6\n', [2, 3, 5]),
    ".jsonl": (
        '{"text": "good film", "n": 1}\n{"text": NaN}\n{"text": \n{"n": 4}\n\n[1]\n{"text": "fine"}\n',
        [2, 3, 4, 5, 6],
    ),
}


@pytest.mark.parametrize("ending", BAD)
@pytest.mark.parametrize("written", ENDINGS)
def test_bad_rows_stop_a_run_before_it_starts_or_are_skipped_with_a_reason(clf, tmp_path, ending, written, monkeypatch):
    content, bad = BAD[ending]
    file, out = tmp_path / f"in{ending}", tmp_path / f"out{written}"
    file.write_text(content)
    asked = []
    explain_iter = RsmiClassifier.explain_iter
    monkeypatch.setattr(
        RsmiClassifier, "explain_iter", lambda self, texts: asked.append(1) or explain_iter(self, texts)
    )
    with pytest.raises(
        DataError, match=rf"in\{ending}, row {bad[0]} \(line {bad[0] + (ending == '.csv')}\).*--on-error skip"
    ):
        score_file(clf, file, out)
    assert not asked
    assert [path.name for path in tmp_path.iterdir()] == [file.name]

    scored = score_file(clf, file, out, on_error="skip", chunk_rows=2)
    rows = read_rows(out)
    assert (scored.rows, scored.skipped) == (len(rows), len(bad))
    assert [place for place, row in enumerate(rows, 1) if row["error"]] == bad
    for place, row in enumerate(rows, 1):
        if place in bad:
            assert f"in{ending}, row {place} " in row["error"]
            assert all(row[name] in (None, "") for name in ADDED)
        else:
            assert row["error"] in (None, "")
            assert row["label"] == clf.predict([row["text"]])[0]


def test_parquet_rows_without_a_text_are_bad_rows(clf, tmp_path):
    pq.write_table(pa.table({"text": ["good film", None, "", "fine"], "n": [1, 2, 3, 4]}), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=r"in\.parquet, row 2: expected a string in column 'text', got NoneType"):
        score_file(clf, tmp_path / "in.parquet", tmp_path / "out.parquet")
    score_file(clf, tmp_path / "in.parquet", tmp_path / "out.parquet", on_error="skip", chunk_rows=3)
    found = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert [row["n"] for row in found] == [1, 2, 3, 4]
    assert [row["error"] is None for row in found] == [True, False, False, True]
    assert "row 3: expected a text" in found[2]["error"]


def test_names_that_are_taken_are_an_error_with_a_way_out(clf, tmp_path):
    file = write_rows(tmp_path / "in.csv", [{"text": "good film", "label": "pos", "copies": 1}])
    with pytest.raises(DataError, match=r"'label', 'copies' already.*--prefix"):
        score_file(clf, file, tmp_path / "out.csv")
    score_file(clf, file, tmp_path / "out.csv", prefix="predicted_")
    row = read_rows(tmp_path / "out.csv")[0]
    assert (row["label"], row["copies"]) == ("pos", 1)
    assert row["predicted_label"] == clf.predict(["good film"])[0]
    assert list(row) == ["text", "label", "copies", *(f"predicted_{name}" for name in ADDED)]


def test_a_column_error_is_taken_only_where_errors_are_written(clf, tmp_path):
    file = write_rows(tmp_path / "in.csv", [{"text": "good film", "error": "mine"}])
    score_file(clf, file, tmp_path / "out.csv")
    with pytest.raises(DataError, match="'error' already"):
        score_file(clf, file, tmp_path / "other.csv", on_error="skip")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("in.csv", "", "got an empty file"),
        ("in.csv", "text,n\n", "expected rows with a text each"),
        ("in.csv", "words,n\ngood,1\n", "expected a header with one of the columns"),
        ("in.jsonl", "", "got an empty file"),
        ("in.parquet", "no parquet", "expected a Parquet file"),
        ("in.xlsx", "x", "expected a file ending in"),
    ],
)
def test_files_that_cannot_be_scored_are_one_error(clf, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        score_file(clf, tmp_path / name, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_wrong_choices_are_one_error(clf, tmp_path, model):
    file = write_rows(tmp_path / "in.csv", ROWS)
    with pytest.raises(DataError, match="expected a name ending in"):
        score_file(clf, file, tmp_path / "out.xlsx")
    with pytest.raises(ConfigError, match="on_error: expected 'stop' or 'skip'"):
        score_file(clf, file, tmp_path / "out.csv", on_error="ignore")
    for choice in ({"chunk_rows": 0}, {"workers": 0}):
        with pytest.raises(ConfigError, match=f"{next(iter(choice))}: expected an int of at least 1"):
            score_file(clf, file, tmp_path / "out.csv", **choice)
    with pytest.raises(NotFittedError):
        score_file(RsmiClassifier(str(model)), file, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_a_result_is_never_overwritten(clf, tmp_path):
    file = write_rows(tmp_path / "in.csv", ROWS)
    for out in (file, tmp_path / "out.csv"):
        if out != file:
            out.write_text("years of work")
        before = out.read_bytes()
        for resume in (False, True):
            with pytest.raises(DataError, match="exists already"):
                score_file(clf, file, out, resume=resume)
        assert out.read_bytes() == before


class Stopped(Exception):
    """Somebody pulled the plug."""


@pytest.fixture
def interrupted(clf, monkeypatch):
    """(chunks, file, out, **choices) -> run, and stop after so many chunks."""

    def run(chunks, file, out, classifier=clf, **choices):
        left = [chunks]
        explain_iter = RsmiClassifier.explain_iter

        def explain(self, texts):
            left[0] -= 1
            if left[0] < 0:
                raise Stopped
            return explain_iter(self, texts)

        with monkeypatch.context() as patch:
            patch.setattr(RsmiClassifier, "explain_iter", explain)
            with pytest.raises(Stopped):
                score_file(classifier, file, out, chunk_rows=6, **choices)

    return run


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_run_resumed_ends_with_the_bytes_of_one_that_was_not_interrupted(clf, tmp_path, ending, interrupted):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    whole, out = tmp_path / f"whole{ending}", tmp_path / f"out{ending}"
    score_file(clf, file, whole, chunk_rows=6)
    interrupted(2, file, out)
    interrupted(3, file, out, resume=True)
    parts = tmp_path / f"out{ending}.parts"
    assert not out.exists()
    assert sorted(path.name for path in parts.iterdir()) == [
        "manifest.json",
        *(f"part-{number:08d}{ending}" for number in range(5)),
    ]
    with pytest.raises(DataError, match="interrupted; pass resume=True"):
        score_file(clf, file, out, chunk_rows=6)
    assert score_file(clf, file, out, chunk_rows=6, resume=True).resumed == 30
    assert out.read_bytes() == whole.read_bytes()
    assert not parts.exists()


def test_a_part_that_was_being_written_is_done_again(clf, tmp_path, interrupted):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    score_file(clf, file, tmp_path / "whole.jsonl", chunk_rows=6)
    interrupted(2, file, tmp_path / "out.jsonl")
    (tmp_path / "out.jsonl.parts" / ".part-00000002.jsonl.4711").write_text('{"half')
    score_file(clf, file, tmp_path / "out.jsonl", chunk_rows=6, resume=True)
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_run_cut_off_between_the_result_and_its_tidying_up_is_finished(clf, tmp_path, interrupted, monkeypatch):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"

    def stop(*_args, **_kwargs):
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stop)
        with pytest.raises(Stopped):
            score_file(clf, file, out, chunk_rows=6)
    before = out.read_bytes()
    assert score_file(clf, file, out, chunk_rows=6, resume=True).resumed == 40
    assert out.read_bytes() == before
    assert not (tmp_path / "out.jsonl.parts").exists()


def test_a_result_of_somebody_else_in_the_place_of_an_unfinished_one_is_kept(clf, tmp_path, interrupted):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    interrupted(2, file, out)
    out.write_text("mine")
    with pytest.raises(DataError, match="is not finished; move it away"):
        score_file(clf, file, out, chunk_rows=6, resume=True)
    assert out.read_text() == "mine"


def test_nothing_to_resume_is_a_run_from_the_beginning(clf, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    assert score_file(clf, file, tmp_path / "out.jsonl", resume=True).resumed == 0


def other_seed(model):
    return RsmiClassifier.from_pretrained(model, seed=1, progress=False)


def other_settings(model):
    return RsmiClassifier.from_pretrained(model, replace(CONFIG, noise_std=0.1), seed=0, progress=False)


def other_weights(model):
    classifier = RsmiClassifier.from_pretrained(model, seed=0, progress=False)
    next(classifier.engine().loaded.encoder.model.parameters()).data[0, 0] += 1
    return classifier


@pytest.mark.parametrize(
    ("other", "choices", "named"),
    [
        (other_seed, {}, "seed was 0, is 1"),
        (other_settings, {}, "config was"),
        (other_weights, {}, "model was"),
        (None, {"chunk_rows": 7}, "chunk_rows was 6, is 7"),
        (None, {"prefix": "p_"}, "prefix was '', is 'p_'"),
        (None, {"on_error": "skip"}, "on_error was 'stop', is 'skip'"),
        (None, {"text_column": "note"}, "columns was"),
    ],
)
def test_another_run_does_not_go_on_in_the_same_folder(clf, model, tmp_path, interrupted, other, choices, named):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    interrupted(2, file, out)
    classifier = clf if other is None else other(model)
    with pytest.raises(DataError, match=f"same model, settings and input.*{named}"):
        score_file(classifier, file, out, resume=True, **{"chunk_rows": 6, **choices})
    assert score_file(clf, file, out, chunk_rows=6, resume=True).resumed == 12


def test_another_input_of_the_same_size_does_not_go_on(clf, tmp_path, interrupted):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    interrupted(2, file, out)
    write_rows(file, [{**ROWS[0], "id": 9}, *ROWS[1:]])
    with pytest.raises(DataError, match=r"input was .*digest"):
        score_file(clf, file, out, chunk_rows=6, resume=True)


def test_a_lower_token_budget_may_go_on(clf, model, tmp_path, interrupted):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    interrupted(2, file, out)
    frugal = RsmiClassifier.from_pretrained(model, seed=0, token_budget=64, progress=False)
    assert score_file(frugal, file, out, chunk_rows=6, resume=True).resumed == 12


@pytest.mark.parametrize("damage", ["{", "[]", "null"])
def test_a_damaged_manifest_is_one_error(clf, tmp_path, interrupted, damage):
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    interrupted(2, file, out)
    (tmp_path / "out.jsonl.parts" / "manifest.json").write_text(damage)
    with pytest.raises(DataError, match="expected the manifest of a run"):
        score_file(clf, file, out, chunk_rows=6, resume=True)


def test_a_folder_of_somebody_else_is_left_alone(clf, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    (tmp_path / "out.jsonl.parts").mkdir()
    (tmp_path / "out.jsonl.parts" / "thesis.tex").write_text("years of work")
    with pytest.raises(DataError, match="got other files"):
        score_file(clf, file, tmp_path / "out.jsonl", resume=True)
    assert (tmp_path / "out.jsonl.parts" / "thesis.tex").read_text() == "years of work"


def test_a_file_in_the_place_of_the_folder_is_left_alone(clf, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    (tmp_path / "out.jsonl.parts").write_text("years of work")
    with pytest.raises(DataError, match="expected a folder for the parts"):
        score_file(clf, file, tmp_path / "out.jsonl", resume=True)
    assert (tmp_path / "out.jsonl.parts").read_text() == "years of work"


def test_a_full_disk_is_one_sentence_and_the_chunks_done_are_kept(clf, tmp_path):
    """Parts fit, their whole does not."""
    file, out = write_rows(tmp_path / "in.jsonl", ROWS), tmp_path / "out.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
        with pytest.raises(DataError, match="cannot write there: File too large; the chunks done are kept"):
            score_file(clf, file, out, chunk_rows=6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not out.exists()
    assert score_file(clf, file, out, chunk_rows=6, resume=True).resumed == 40
    assert len(read_rows(out)) == 40


def test_an_input_that_changes_under_way_is_noticed(clf, tmp_path, monkeypatch):
    file = write_rows(tmp_path / "in.jsonl", ROWS)
    explain_iter, calls = RsmiClassifier.explain_iter, []

    def explain(self, texts):
        calls.append(1)
        if len(calls) == 3:
            write_rows(file, [{**row, "note": "other"} for row in ROWS])
        return explain_iter(self, texts)

    with monkeypatch.context() as patch:
        patch.setattr(RsmiClassifier, "explain_iter", explain)
        with pytest.raises(DataError, match="changed while it was scored; the chunks done before that are kept"):
            score_file(clf, file, tmp_path / "out.jsonl", chunk_rows=6)
    assert len(list((tmp_path / "out.jsonl.parts").glob("part-*"))) == 2
    write_rows(file, ROWS)
    score_file(clf, file, tmp_path / "out.jsonl", chunk_rows=6, resume=True)
    assert [row["note"] for row in read_rows(tmp_path / "out.jsonl")] == [row["note"] for row in ROWS]


def test_workers_need_a_model_that_they_can_load(model, tmp_path):
    file = write_rows(tmp_path / "in.jsonl", ROWS[:4])
    changed = other_weights(model)
    with pytest.raises(WorkerError, match=r"expected the weights .* in every worker"):
        score_file(changed, file, tmp_path / "out.jsonl", workers=2)
