from __future__ import annotations

import pytest

from rsmi.data.columns import Columns, TextColumns, find_label_column, find_text_columns
from rsmi.errors import DataError


@pytest.mark.parametrize(
    ("present", "text", "pair"),
    [
        (["label", "text"], "text", None),
        (["review", "sentence"], "sentence", None),
        (["content"], "content", None),
        (["text", "question", "sentence"], "question", "sentence"),
        (["hypothesis", "premise"], "premise", "hypothesis"),
        (["sentence1", "sentence2"], "sentence1", "sentence2"),
        (["text_pair", "text"], "text", "text_pair"),
        (["question", "text"], "text", None),
    ],
)
def test_known_text_columns_are_found_and_pairs_win(present: list[str], text: str, pair: str | None) -> None:
    assert find_text_columns(present, Columns(), "x.csv") == TextColumns(text=text, pair=pair)


def test_a_text_column_given_alone_means_single_texts() -> None:
    columns = find_text_columns(["question", "sentence"], Columns(text="sentence"), "x.csv")
    assert columns == TextColumns(text="sentence", pair=None)


def test_unknown_columns_are_listed_with_the_way_out() -> None:
    with pytest.raises(DataError, match=r"x\.csv: .*got 'body', 'y'; pass text_column"):
        find_text_columns(["body", "y"], Columns(), "x.csv")
    with pytest.raises(DataError, match=r"got 'body', 'y'; pass label_column"):
        find_label_column(["body", "y"], Columns(), "x.csv")


def test_a_chosen_column_must_exist() -> None:
    with pytest.raises(DataError, match="expected a column 'body'"):
        find_text_columns(["text"], Columns(text="body"), "x.csv")
    with pytest.raises(DataError, match="expected a column 'y'"):
        find_label_column(["label"], Columns(label="y"), "x.csv")


def test_a_pair_column_needs_a_text_column() -> None:
    with pytest.raises(DataError, match="pass both"):
        find_text_columns(["text", "b"], Columns(pair="b"), "x.csv")


def test_label_is_preferred_over_other_names() -> None:
    assert find_label_column(["sentiment", "class", "label"], Columns(), "x.csv") == "label"
    assert find_label_column(["sentiment", "target"], Columns(), "x.csv") == "target"
