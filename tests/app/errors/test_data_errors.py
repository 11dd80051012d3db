"""What a newcomer's data may look like: every message names the file and the row, and what to type next."""

from __future__ import annotations

import pytest

from command import complaint

FILES = {
    "header only": ("text,label\n", "expected rows", "add some"),
    "empty": ("", "empty file"),
    "one class": ("text,label\n" + "a good film,pos\n" * 20, "['pos'] alone", "--label-column"),
    "other columns": ("body,kind\na,b\nc,d\n", "'body', 'kind'", "--text-column"),
    "no label column": ("text,kind\na,b\nc,d\n", "'text', 'kind'", "--label-column"),
    "semicolons": ("text;label\ngood;pos\nbad;neg\n", "parted by ';'", "commas (.csv)"),
    "a blank label": ("text,label\ngood,pos\nbad,\n", "row 2 (line 3)", "remove the row"),
    "a blank text": ("text,label\ngood,pos\n,neg\n", "row 2 (line 3)", "remove the row"),
    "a broken row": ("text,label\ngood,pos\nfar,too,many\n", "row 2 (line 3)", "quote texts"),
    "an open quote": ('text,label\n"good,pos\nbad,neg\n', "row 1", "quote"),
    "one row a class": ("text,label\ngood,pos\nbad,neg\n", "2 rows or more", "add rows"),
    "latin-1": ("text,label\ncaf\xe9,pos\nbad,neg\n".encode("latin-1"), "line 2", "save the file as UTF-8"),
    "binary": (bytes(range(256)) * 20, "NUL byte", "plain UTF-8"),
}
JSONL = {
    "NaN": ('{"text": "good", "label": NaN}\n{"text": "bad", "label": "neg"}\n', "row 1 (line 1)", "remove the row"),
    "null": ('{"text": null, "label": "pos"}\n{"text": "bad", "label": "neg"}\n', "NoneType", "fill in the text"),
    "half a line": ('{"text": "good", "label": "pos"}\n{"text": "ba', "row 2 (line 2)", "repair the line"),
    "a list": ('["good", "pos"]\n', "row 1", "repair the line"),
}
CASES = [
    *(pytest.param("data.csv", *case, id=name) for name, case in FILES.items()),
    *(pytest.param("data.jsonl", *case, id=name) for name, case in JSONL.items()),
    pytest.param("data.parquet", b"PAR1 and nothing more", "data.parquet", "write it again", id="parquet"),
    pytest.param("data.csv.gz", b"not zipped", "data.csv.gz", id="gzip"),
    pytest.param("data.txt", "good\n", "ending in .csv", "convert or rename it", id="txt"),
]
"""Name and content of a file, and what the message must say."""


@pytest.fixture
def refuse(run, base, tmp_path, monkeypatch):
    """(words of a command) -> the message with which it fails; nothing is left behind."""

    def refused(*words, code=1, said=()):
        before = sorted(tmp_path.rglob("*"))
        message = complaint(run(*words), code, *said)
        assert sorted(tmp_path.rglob("*")) == before
        return message

    monkeypatch.chdir(tmp_path)
    return refused


@pytest.mark.parametrize(("name", "content", "said"), [(*own.values[:2], own.values[2:]) for own in CASES])
def test_training_refuses_a_bad_file_by_name(refuse, base, tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refuse("train", name, "--base", base, "--out", "new", said=(name.split(".")[0], *said))


def test_places_that_hold_no_data(refuse, base, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.csv").mkdir()
    for data, *said in (
        ("nowhere.csv", "nowhere.csv", "no such file", "check the path"),
        ("folder", "got a folder", "pass a file in it"),
        ("folder.csv", "got a folder", "pass a file in it"),
        ("imbd", "'imbd'", "did you mean 'imdb'?"),
        ("owner/name", "owner/name on the hub", "or pass a file"),
        ("x" * 300 + ".csv", "check the path"),
    ):
        refuse("train", data, "--base", base, "--out", "new", said=said)


@pytest.mark.parametrize("command", ["evaluate", "attack", "certify", "gate", "augment", "time", "plan"])
def test_every_command_that_reads_data_names_a_missing_file(refuse, model, command):
    words = {
        "evaluate": ("evaluate", model, "nowhere.csv"),
        "attack": ("attack", model, "nowhere.csv", "--attack", "deepwordbug", "--out", "run.jsonl"),
        "certify": ("certify", model, "nowhere.csv", "--out", "run.jsonl"),
        "gate": ("gate", model, "nowhere.csv", "--min-accuracy", 0.5),
        "augment": ("augment", "nowhere.csv", "--model", model, "--attack", "deepwordbug", "--out", "added.jsonl"),
        "time": ("analyse", "time", model, "nowhere.csv"),
        "plan": ("doctor", "--plan", model, "nowhere.csv"),
    }[command]
    refuse(*words, said=("nowhere.csv", "check the path"))


def test_columns_and_splits_that_are_misspelt(refuse, model, table):
    said = ("'lable'", "'text', 'label'", "--label-column", "did you mean 'label'?")
    refuse("evaluate", model, table, "--label-column", "lable", said=said)
    refuse("evaluate", model, table, "--split", "tset", said=("'tset'", "did you mean 'test'?"))
    refuse("predict", model, "--file", table, "--pair-column", "label", said=("pair_column='label'", "--text-column"))
    refuse("predict", model, "good", "--text-column", "text", code=2, said=("--file", "--text-column"))


def test_labels_that_the_model_does_not_know(refuse, model, tmp_path):
    (tmp_path / "stars.csv").write_text("text,label\ngood,5\nbad,1\n")
    refuse("evaluate", model, "stars.csv", said=("['neg', 'pos']", "5", "--label-column"))


def test_texts_that_cannot_be_classified(refuse, run, model):
    refuse("predict", model, " ", said=("text 0 is empty", "leave it out"))
    refuse("predict", model, "\udce9", said=("U+DCE9", "errors="))
    refuse("predict", model, code=2, said=("TEXT", "--file"))
    assert run("predict", model, "good " * 20_000, "--variant", "plain")[0] == 0  # its end is cut


def test_a_scored_file_stops_before_it_starts(refuse, model, table, tmp_path):
    score = ("predict", model, "--file", table, "--prefix", "predicted_", "--out")
    refuse(*score, "scored.txt", said=("scored.txt", ".csv"))
    refuse(*score, table, said=("exists already", "choose another file"))
    refuse(*score, "scored.csv", "--on-error", "ignore", said=("'ignore'", "'skip'"))
    refuse("predict", model, "--file", table, "--out", "scored.csv", said=("'label' already", "--prefix"))
    refuse("predict", model, "good", "--out", "scored.csv", code=2, said=("--out", "--file"))
    refuse("predict", model, "--file", table, "--resume", code=2, said=("--out", "--resume"))
    assert not (tmp_path / "scored.csv").exists()
