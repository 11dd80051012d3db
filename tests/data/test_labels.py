from __future__ import annotations

import pytest

from rsmi.data.labels import labels_from_strings, labels_from_values, named_labels
from rsmi.errors import DataError
from rsmi.records import Label

WHERES = ["row 1", "row 2", "row 3"]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["0", "1", "-2"], (0, 1, -2)),
        (["01", "1", "2"], ("01", "1", "2")),
        (["1.0", "0.0", "2.00"], (1, 0, 2)),
        (["1", "pos", "2"], ("1", "pos", "2")),
        (["1.5", "pos", "2"], ("1.5", "pos", "2")),
        (["-0", "0", "1"], ("-0", "0", "1")),
        (["9" * 30, "1", "2"], ("9" * 30, "1", "2")),
        (["nan", "pos", "neg"], ("nan", "pos", "neg")),
    ],
)
def test_strings_become_integers_only_together(values: list[str], labels: tuple[Label, ...]) -> None:
    assert labels_from_strings(values, WHERES) == labels


@pytest.mark.parametrize(
    ("values", "row"),
    [
        (["0", "", "1"], "row 2"),
        (["0", "1", "  "], "row 3"),
        (["0", "1", "nan"], "row 3"),
        (["0.5", "1", "2"], "row 1"),
        (["1", "1.0", "2"], "row 2"),
        (["1", "2", "1e3"], "row 3"),
        (["1.0", "0.0", "nan"], "row 3"),
    ],
)
def test_strings_that_are_no_classes_are_refused_by_row(values: list[str], row: str) -> None:
    with pytest.raises(DataError, match=row):
        labels_from_strings(values, WHERES)


@pytest.mark.parametrize(
    ("values", "labels"),
    [([0, 1, 2], (0, 1, 2)), (["0", "1", "2"], ("0", "1", "2")), ([1.0, 0.0, 1.0], (1, 0, 1))],
)
def test_typed_values_keep_their_type(values: list[object], labels: tuple[Label, ...]) -> None:
    got = labels_from_values(values, WHERES)
    assert got == labels
    assert [type(label) for label in got] == [type(label) for label in labels]


@pytest.mark.parametrize("bad", [True, None, float("nan"), 0.5, "", " ", ["a"], {"a": 1}, b"x", "pos"])
def test_other_typed_values_are_refused_by_row(bad: object) -> None:
    with pytest.raises(DataError, match="row 2: expected"):
        labels_from_values([0, bad, 1], WHERES)


def test_integers_get_their_names() -> None:
    assert named_labels([1, 0], ("neg", "pos"), "mr.csv") == ("pos", "neg")


@pytest.mark.parametrize("bad", [2, -1, "pos"])
def test_an_integer_without_a_name_is_refused(bad: Label) -> None:
    with pytest.raises(DataError, match="from 0 to 1"):
        named_labels([0, bad], ("neg", "pos"), "mr.csv")
