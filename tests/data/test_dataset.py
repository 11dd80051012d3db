from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi.data import TextDataset
from rsmi.errors import DataError, LabelError
from rsmi.records import Label, TextInput


def make(texts: list[TextInput], labels: list[Label]) -> TextDataset:
    return TextDataset(name="toy", split="all", texts=tuple(texts), labels=tuple(labels), source="a test")


def test_texts_and_labels_must_have_one_length() -> None:
    with pytest.raises(LabelError, match="2 texts but 1 labels"):
        make(["a", "b"], ["pos"])


def test_texts_and_pairs_cannot_be_mixed() -> None:
    with pytest.raises(DataError, match="only texts or only pairs"):
        make(["a", ("b", "c")], [0, 1])


def test_classes_are_sorted_and_distinct() -> None:
    assert make(["a", "b", "c"], ["pos", "neg", "pos"]).classes == ("neg", "pos")
    assert make(["a", "b", "c"], [10, 9, 10]).classes == (9, 10)


def test_classes_of_two_kinds_are_refused() -> None:
    with pytest.raises(LabelError, match="'pos' and 1"):
        _ = make(["a", "b"], ["pos", 1]).classes


def test_pairs_are_recognised() -> None:
    assert make([("a", "b")], [0]).is_pair
    assert not make(["a"], [0]).is_pair


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        (["b", "a"], ["x", "y"]),
        (["a", "b"], ["y", "x"]),
        (["a", "bx"], ["x", "y"]),
        ([("a", "x"), ("b", "y")], ["x", "y"]),
    ],
)
def test_fingerprint_sees_order_texts_and_labels(texts: list[TextInput], labels: list[Label]) -> None:
    assert make(texts, labels).fingerprint != make(["a", "b"], ["x", "y"]).fingerprint


def test_fingerprint_tells_integers_from_strings_but_ignores_the_name() -> None:
    assert make(["a"], [1]).fingerprint != make(["a"], ["1"]).fingerprint
    other = TextDataset(name="other", split="dev", texts=("a",), labels=(1,), source="elsewhere")
    assert make(["a"], [1]).fingerprint == other.fingerprint


def test_take_is_deterministic_and_nested() -> None:
    data = make([f"text {i}" for i in range(50)], list(range(50)))
    assert data.take(10, seed=3) == data.take(10, seed=3)
    assert data.take(20, seed=3).texts[:10] == data.take(10, seed=3).texts
    assert data.take(10, seed=3).texts != data.take(10, seed=4).texts
    assert sorted(data.take(50, seed=3).texts) == sorted(data.texts)


@pytest.mark.parametrize("n", [0, -1, 4])
def test_take_refuses_what_the_set_cannot_give(n: int) -> None:
    with pytest.raises(DataError, match=f"1 to 3 rows of toy .* got {n}"):
        make(["a", "b", "c"], [0, 1, 2]).take(n, seed=0)


def test_head_keeps_the_order() -> None:
    data = make(["a", "b", "c"], [0, 1, 2])
    assert data.head(2).texts == ("a", "b")
    assert data.head(9) == data
    with pytest.raises(DataError, match="got 0"):
        data.head(0)


def test_duplicates_keep_the_first_and_contradictions_keep_none() -> None:
    data = make(["a", "b", "a", "c", "b", "b"], [0, 0, 0, 1, 1, 0])
    unique = data.without_duplicates()
    assert unique.texts == ("a", "c")
    assert unique.labels == (0, 1)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0, 1]))))
def test_without_duplicates_is_idempotent(rows: list[tuple[str, int]]) -> None:
    unique = make([text for text, _ in rows], [label for _, label in rows]).without_duplicates()
    assert len(set(unique.texts)) == len(unique)
    assert unique.without_duplicates() == unique
