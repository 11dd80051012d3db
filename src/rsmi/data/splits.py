"""Labels or texts -> train, dev and test, the same on every machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from rsmi.data.dataset import TextDataset
from rsmi.errors import ConfigError, DataError
from rsmi.records import Label, TextInput
from rsmi.seeds import derive

HashSplit: TypeAlias = Literal["train", "dev", "test"]
"""The three parts a set without official splits is cut into."""


def stratified_split(labels: Sequence[Label], fraction: float, seed: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Hold out about `fraction` of each class.

    A class gives `round(fraction * count)` rows, but at least one and never all of them; a class of one row gives none.
    Rows are ranked by a hash of the seed and their position, so no global random state is read or changed.

    Returns:
        The kept and the held-out positions, both ascending.
    """
    if not 0.0 < fraction < 1.0:
        raise ConfigError(f"expected a fraction above 0 and below 1, got {fraction}")
    members: defaultdict[Label, list[int]] = defaultdict(list)
    for i, label in enumerate(labels):
        members[label].append(i)
    held: set[int] = set()
    for positions in members.values():
        count = min(max(round(fraction * len(positions)), 1), len(positions) - 1)
        held.update(sorted(positions, key=lambda i: derive("stratified", seed, i))[:count])
    kept = tuple(i for i in range(len(labels)) if i not in held)
    return kept, tuple(sorted(held))


def hash_split(text: TextInput) -> HashSplit:
    """Assign a text to train (80 %), dev (10 %) or test (10 %) by its hash alone, whatever the rest of the set is."""
    parts = (text,) if isinstance(text, str) else text
    bucket = derive("split", *parts) % 10
    return "test" if bucket == 0 else "dev" if bucket == 1 else "train"


def hash_part(whole: TextDataset, split: str) -> TextDataset:
    """Return the rows of `whole` that `hash_split` assigns to `split`, after removing duplicates."""
    unique = whole.without_duplicates()
    return unique.rows((i for i, text in enumerate(unique.texts) if hash_split(text) == split), split)


def train_or_dev(train: TextDataset, split: str, dev_fraction: float, seed: int) -> TextDataset:
    """Cut a dev part out of a set that has none; `split` is `train` (what is left) or `dev`.

    Where every class has one row, train is the whole set and asking for dev is an error.
    """
    kept, held = stratified_split(train.labels, dev_fraction, seed)
    if split == "dev" and not held:
        raise DataError(
            f"expected a class with 2 rows or more to take a dev part from, got {len(train)} rows of one each in "
            f"{train.source}; add rows"
        )
    part = train.rows(held if split == "dev" else kept, split)
    what = "the dev part" if split == "dev" else "what is left beside a dev part"
    return replace(part, source=f"{train.source}, {what} of {dev_fraction:g} of each class, seed {seed}")
