from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest

from rsmi.data.columns import Columns
from rsmi.data.hub import HUB_SETS, HubSet, hub_dataset, parse_hub_id
from rsmi.errors import DataError

TOY = HubSet(path="owner/toy")


def part(labels: list[int], prefix: str, names: tuple[str, ...] = ("neg", "pos")) -> datasets.Dataset:
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=list(names))})
    rows = {"text": [f"{prefix} {i}" for i in range(len(labels))], "label": labels}
    return datasets.Dataset.from_dict(rows, features=features)


def serve(monkeypatch: pytest.MonkeyPatch, **parts: datasets.Dataset) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def load_dataset(*args: Any) -> datasets.DatasetDict:
        calls.append(args)
        return datasets.DatasetDict(parts)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


@pytest.mark.parametrize(
    ("text", "path", "config"),
    [("nyu-mll/glue:qnli", "nyu-mll/glue", "qnli"), ("owner/name", "owner/name", None)],
)
def test_hub_ids_are_parsed(text: str, path: str, config: str | None) -> None:
    parsed = parse_hub_id(text)
    assert parsed == HubSet(path=path, config=config)
    assert parsed.id == text


@pytest.mark.parametrize("text", ["name", "a/b/c", "../secret", "/etc/passwd", "owner/", "owner/name:", "https://x/y"])
def test_other_strings_are_no_hub_ids(text: str) -> None:
    assert parse_hub_id(text) is None


def test_class_numbers_become_names(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = serve(monkeypatch, test=part([0, 1], "test"))
    data = hub_dataset(HubSet(path="owner/toy", config="small"), "test", Columns(), name="toy")
    assert calls == [("owner/toy", "small")]
    assert (data.texts, data.labels) == (("test 0", "test 1"), ("neg", "pos"))
    assert data.source == "hub owner/toy:small, split test"


def test_dev_is_the_validation_split(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, train=part([0, 1] * 10, "train"), validation=part([0, 1], "validation"))
    assert hub_dataset(TOY, "dev", Columns(), name="toy").texts == ("validation 0", "validation 1")
    assert hub_dataset(TOY, "validation", Columns(), name="toy").texts[0] == "validation 0"
    assert len(hub_dataset(TOY, "train", Columns(), name="toy")) == 20


def test_dev_comes_out_of_train_where_the_hub_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, train=part([0, 1] * 10, "train"), test=part([0, 1], "test"))
    train, dev = (hub_dataset(TOY, split, Columns(), name="toy") for split in ("train", "dev"))
    assert (len(train), len(dev)) == (18, 2)
    assert not set(train.texts) & set(dev.texts)


def test_named_pairs_use_the_validation_split_as_test(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, train=part([0, 1] * 10, "train"), validation=part([0], "validation"), test=part([-1], "test"))
    wanted = HUB_SETS["qnli"]
    assert hub_dataset(wanted, "test", Columns(), name="qnli").texts == ("validation 0",)
    assert len(hub_dataset(wanted, "dev", Columns(), name="qnli")) == 2
    assert len(hub_dataset(wanted, "train", Columns(), name="qnli")) == 18


def test_pairs_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"premise": ["a"], "hypothesis": ["b"], "label": ["x"]}
    serve(monkeypatch, test=datasets.Dataset.from_dict(rows))
    assert hub_dataset(TOY, "test", Columns(), name="toy").texts == (("a", "b"),)


def test_a_split_without_labels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, test=part([-1, -1], "test"))
    with pytest.raises(DataError, match=r"split test: .* a split that has no labels"):
        hub_dataset(TOY, "test", Columns(), name="toy")
    serve(monkeypatch, test=datasets.Dataset.from_dict({"text": ["a", "b"], "label": [-1, -1]}))
    with pytest.raises(DataError, match="a split that has no labels"):
        hub_dataset(TOY, "test", Columns(), name="toy")


def test_snli_leaves_out_rows_without_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, validation=part([0, -1, 1], "v"))
    data = hub_dataset(HUB_SETS["snli"], "test", Columns(), name="snli")
    assert data.texts == ("v 0", "v 2")
    assert "rows without a label dropped" in data.source


def test_a_set_of_one_split_is_cut_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, train=part([0, 1] * 50, "train").rename_column("text", "sms"))
    wanted = HUB_SETS["sms_spam"]
    parts = [hub_dataset(wanted, split, wanted.columns, name="sms_spam") for split in ("train", "dev", "test")]
    assert sum(len(data) for data in parts) == 100


def test_a_missing_split_lists_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, train=part([0, 1], "train"))
    with pytest.raises(DataError, match="expected a split 'test' in owner/toy, got train"):
        hub_dataset(TOY, "test", Columns(), name="toy")


def test_hub_failures_become_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: Any) -> None:
        raise ConnectionError("no network\nlong story")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(DataError, match=r"owner/toy on the hub, got ConnectionError \(no network\); check the id"):
        hub_dataset(TOY, "test", Columns(), name="toy")


def test_a_local_folder_goes_through_the_real_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "toy"
    folder.mkdir()
    (folder / "train.csv").write_text("text,label\n" + "good,pos\nbad,neg\n" * 10, encoding="utf-8")
    (folder / "test.csv").write_text("text,label\nfine,pos\n", encoding="utf-8")
    wanted = HubSet(path=str(folder))
    sizes = {split: len(hub_dataset(wanted, split, Columns(), name="toy")) for split in ("train", "dev", "test")}
    assert sizes == {"train": 18, "dev": 2, "test": 1}
    assert hub_dataset(wanted, "test", Columns(), name="toy").labels == ("pos",)
