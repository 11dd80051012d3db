from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi.data import TextDataset, hash_split, stratified_split
from rsmi.data.splits import hash_part, train_or_dev
from rsmi.errors import ConfigError, DataError


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=60),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_stratified_split_is_a_partition_with_the_promised_counts(
    labels: list[str], fraction: float, seed: int
) -> None:
    kept, held = stratified_split(labels, fraction, seed)
    assert sorted(kept + held) == list(range(len(labels)))
    assert list(kept) == sorted(kept)
    assert list(held) == sorted(held)
    taken = Counter(labels[i] for i in held)
    for label, count in Counter(labels).items():
        assert taken[label] == (0 if count == 1 else min(max(round(fraction * count), 1), count - 1))
    assert stratified_split(labels, fraction, seed) == (kept, held)


def test_stratified_split_depends_on_the_seed() -> None:
    labels = ["a", "b"] * 100
    assert stratified_split(labels, 0.1, 0) != stratified_split(labels, 0.1, 1)


def test_stratified_split_leaves_global_randomness_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    stratified_split(["a", "b"] * 10, 0.2, 0)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index, union-attr]


@pytest.mark.parametrize("fraction", [0.0, 1.0, -0.1, float("nan")])
def test_impossible_fractions_are_refused(fraction: float) -> None:
    with pytest.raises(ConfigError, match="above 0 and below 1"):
        stratified_split(["a", "b"], fraction, 0)


def test_hash_split_gives_about_80_10_10() -> None:
    parts = Counter(hash_split(f"text {i}") for i in range(5000))
    # 5 standard deviations of a binomial with p = 0.1: 5 * sqrt(5000 * 0.1 * 0.9) = 106
    assert abs(parts["test"] - 500) < 106
    assert abs(parts["dev"] - 500) < 106


def test_hash_split_never_moves() -> None:
    assert [hash_split(text) for text in ("dull .", "a mess .", "a triumph .", ("a", "b"))] == [
        "train",
        "dev",
        "test",
        "train",
    ]


def test_hash_parts_share_no_text() -> None:
    texts = tuple(f"text {i % 90}" for i in range(120))
    whole = TextDataset(name="toy", split="all", texts=texts, labels=("x",) * 120, source="a test")
    parts = [hash_part(whole, split) for split in ("train", "dev", "test")]
    assert sum(len(part) for part in parts) == 90
    assert len({text for part in parts for text in part.texts}) == 90


def test_a_dev_part_needs_a_class_of_two() -> None:
    lone = TextDataset(name="toy", split="all", texts=("a", "b"), labels=(0, 1), source="a test")
    with pytest.raises(DataError, match="2 rows or more"):
        train_or_dev(lone, "dev", 0.1, 0)
    assert len(train_or_dev(lone, "train", 0.1, 0)) == 2


def test_the_source_tells_of_the_dev_part() -> None:
    data = TextDataset(name="toy", split="all", texts=("a", "b"), labels=(0, 0), source="a test")
    assert train_or_dev(data, "dev", 0.1, 7).source == "a test, the dev part of 0.1 of each class, seed 7"
