from __future__ import annotations

import csv
import gzip
from collections import Counter
from pathlib import Path

import pytest

from rsmi.data.folder import FOLDER_SETS, folder_dataset
from rsmi.errors import DataError


def write(folder: Path, name: str, header: list[str], rows: list[list[object]]) -> None:
    with gzip.open(folder / f"{name}.csv.gz", "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    single = ["label", "text"]
    for name in ("imdb_train", "imdb_test", "mr_train", "mr_dev", "mr_test"):
        write(tmp_path, name, single, [[i % 2, f"{name} {i}"] for i in range(20)])
    for name in ("ag_news_train_subset", "ag_news_test"):
        write(tmp_path, name, single, [[i % 4, f"{name} {i}"] for i in range(40)])
    write(tmp_path, "sms_spam", single, [[i % 2, f"sms {i % 40}"] for i in range(80)])
    names = ("entailment", "not_entailment")
    for name in ("qnli_train_subset", "qnli_dev"):
        rows: list[list[object]] = [[i % 2, names[i % 2], f"{name}? {i}", "s"] for i in range(20)]
        write(tmp_path, name, ["label", "label_name", "question", "sentence"], rows)
    kinds = ("entailment", "neutral", "contradiction")
    for name in ("snli_train_subset", "snli_dev"):
        rows = [[i % 3, kinds[i % 3], f"{name} {i}", "h"] for i in range(30)]
        write(tmp_path, name, ["label", "label_name", "premise", "hypothesis"], rows)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("ag_news", ("Business", "Sci/Tech", "Sports", "World")),
        ("imdb", ("neg", "pos")),
        ("mr", ("neg", "pos")),
        ("qnli", ("entailment", "not_entailment")),
        ("sms_spam", ("ham", "spam")),
        ("snli", ("contradiction", "entailment", "neutral")),
    ],
)
def test_every_set_has_named_classes_and_disjoint_parts(folder: Path, name: str, classes: tuple[str, ...]) -> None:
    parts = {split: folder_dataset(folder, name, split) for split in ("train", "dev", "test")}
    assert {label for part in parts.values() for label in part.classes} == set(classes)
    assert all(part.name == name and part.split == split for split, part in parts.items())
    texts = Counter(text for part in parts.values() for text in part.texts)
    assert max(texts.values()) == 1
    assert parts["train"].is_pair == (name in ("qnli", "snli"))


def test_all_sets_are_listed() -> None:
    assert FOLDER_SETS == ("ag_news", "imdb", "mr", "qnli", "sms_spam", "snli")


def test_integers_become_the_right_names(folder: Path) -> None:
    assert folder_dataset(folder, "imdb", "test").labels[:2] == ("neg", "pos")
    assert folder_dataset(folder, "ag_news", "test").labels[:4] == ("World", "Sports", "Business", "Sci/Tech")


def test_dev_comes_out_of_train_only_where_there_is_no_dev_file(folder: Path) -> None:
    assert [len(folder_dataset(folder, "imdb", split)) for split in ("train", "dev", "test")] == [18, 2, 20]
    assert [len(folder_dataset(folder, "mr", split)) for split in ("train", "dev", "test")] == [20, 20, 20]


def test_the_official_dev_set_is_the_test_set_of_pairs(folder: Path) -> None:
    test = folder_dataset(folder, "qnli", "test")
    assert test.texts[0] == ("qnli_dev? 0", "s")
    assert "the official dev set, used as test" in test.source


def test_subsets_say_so(folder: Path) -> None:
    for name in ("ag_news", "qnli", "snli"):
        assert "a subset of the official train set" in folder_dataset(folder, name, "train").source
    assert folder_dataset(folder, "ag_news", "test").source == "RSMI_DATA/ag_news_test.csv.gz"


def test_missing_folders_and_files_are_refused(folder: Path) -> None:
    with pytest.raises(DataError, match="expected RSMI_DATA to name a folder"):
        folder_dataset(folder / "none", "imdb", "test")
    (folder / "imdb_test.csv.gz").unlink()
    with pytest.raises(DataError, match=r"expected the file imdb_test\.csv\.gz in RSMI_DATA"):
        folder_dataset(folder, "imdb", "test")


@pytest.mark.parametrize(("name", "split"), [("sst2", "train"), ("imdb", "all")])
def test_unknown_names_and_splits_are_refused(folder: Path, name: str, split: str) -> None:
    with pytest.raises(DataError, match="expected one of"):
        folder_dataset(folder, name, split)


def test_an_integer_without_a_name_is_refused(folder: Path) -> None:
    write(folder, "imdb_test", ["label", "text"], [[2, "good"]])
    with pytest.raises(DataError, match="from 0 to 1"):
        folder_dataset(folder, "imdb", "test")
