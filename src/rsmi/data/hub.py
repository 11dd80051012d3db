"""Hub id -> a data set, through the `datasets` library; code from the hub is never run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from rsmi.data.build import Origin, build_dataset
from rsmi.data.columns import Columns, find_label_column
from rsmi.data.dataset import TextDataset
from rsmi.data.rows import Row
from rsmi.data.splits import hash_part, train_or_dev
from rsmi.errors import DataError

_HUB_ID: Final = re.compile(r"(?P<path>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(:(?P<config>[\w.-]+))?", re.ASCII)
_UNLABELLED: Final = -1  # what `datasets` writes for a row without a class


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSet:
    """A set on the hub."""

    path: str
    """`owner/name`."""
    config: str | None = None
    """Which of its configurations."""
    splits: Mapping[str, str] = field(default_factory=dict)
    """Our split -> the hub's, where it is not the usual one; `all` for a set to be cut by hash."""
    columns: Columns = field(default_factory=Columns)
    """Columns whose names are not well known."""
    drop_unlabelled: bool = False
    """Leave out rows without a class instead of refusing the set."""

    @property
    def id(self) -> str:
        """`owner/name` or `owner/name:config`."""
        return self.path if self.config is None else f"{self.path}:{self.config}"


# Same meaning as in the RSMI_DATA folder: QNLI's and SNLI's dev set is the test set, and dev comes out of train.
HUB_SETS: Final[Mapping[str, HubSet]] = MappingProxyType(
    {
        "ag_news": HubSet(path="fancyzhx/ag_news"),
        "imdb": HubSet(path="stanfordnlp/imdb"),
        "mr": HubSet(path="cornell-movie-review-data/rotten_tomatoes"),
        "qnli": HubSet(path="nyu-mll/glue", config="qnli", splits={"dev": "", "test": "validation"}),
        "sms_spam": HubSet(
            path="ucirvine/sms_spam", splits={"all": "train"}, columns=Columns(text="sms", label="label")
        ),
        "snli": HubSet(path="stanfordnlp/snli", splits={"dev": "", "test": "validation"}, drop_unlabelled=True),
    }
)
"""Where the named sets are on the hub; an empty hub split means that there is none to use."""


def parse_hub_id(text: str) -> HubSet | None:
    """Read `owner/name` or `owner/name:config`; None if it is neither."""
    match = _HUB_ID.fullmatch(text)
    return None if match is None else HubSet(path=match["path"], config=match["config"])


def hub_dataset(
    wanted: HubSet, split: str, choice: Columns, *, name: str, dev_fraction: float = 0.1, seed: int = 0
) -> TextDataset:
    """Load one split of a hub set.

    `dev` is the hub's `validation` (or `dev`); where there is none, a stratified part of train, and train the rest.

    Args:
        wanted: The set.
        split: `train`, `dev`, `test`, or the hub's own name of a split.
        choice: Columns the user asked for.
        name: What to call the set.
        dev_fraction: Share of train that becomes dev where the hub has no dev split.
        seed: Which rows become dev.
    """
    parts = _download(wanted)
    if "all" in wanted.splits:
        return hash_part(_read(parts, wanted, "all", wanted.splits["all"], choice, name), split)
    dev = wanted.splits.get("dev", next((part for part in ("validation", "dev") if part in parts), ""))
    if split in ("train", "dev") and not dev:
        return train_or_dev(_read(parts, wanted, "train", "train", choice, name), split, dev_fraction, seed)
    theirs = dev if split == "dev" else wanted.splits.get(split, split)
    return _read(parts, wanted, split, theirs, choice, name)


def _download(wanted: HubSet) -> Mapping[str, Any]:
    """Return the splits of a set by their names on the hub."""
    import datasets  # here, not above: it takes a second, and files and embedded sets do without it

    try:
        parts: Mapping[str, Any] = datasets.load_dataset(wanted.path, wanted.config)
    except Exception as error:  # a boundary: the hub, its HTTP client and its file readers share no base class
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise DataError(
            f"expected the data set {wanted.id} on the hub, got {type(error).__name__} ({reason}); "
            "check the id, its configuration and the network, or pass a file"
        ) from error
    return parts


def _read(parts: Mapping[str, Any], wanted: HubSet, ours: str, theirs: str, choice: Columns, name: str) -> TextDataset:
    if theirs not in parts:
        raise DataError(f"expected a split {theirs!r} in {wanted.id}, got {', '.join(parts)}; pass one of these")
    source = f"hub {wanted.id}, split {theirs}"
    if wanted.drop_unlabelled:
        source += ", rows without a label dropped"
    part = parts[theirs]
    label = find_label_column(part.column_names, choice, source)
    origin = Origin(name=name, split=ours, source=source)
    data = build_dataset(
        _rows(part, label, source, drop_unlabelled=wanted.drop_unlabelled),
        replace(choice, label=label),
        origin,
        untyped=False,
    )
    if set(data.labels) == {_UNLABELLED}:
        raise DataError(_no_labels(source))
    return data


def _rows(part: Any, label: str, source: str, *, drop_unlabelled: bool) -> Iterator[Row]:
    """Yield the rows with class names instead of class numbers."""
    names: list[str] | None = getattr(part.features[label], "names", None)  # only a ClassLabel has names
    for number, values in enumerate(part, start=1):
        if names is not None:
            index = values[label]
            if index is None or index == _UNLABELLED:
                if drop_unlabelled:
                    continue
                raise DataError(f"{_no_labels(source)} (row {number})")
            values = {**values, label: names[index]}
        yield Row(f"{source}, row {number}", values)


def _no_labels(source: str) -> str:
    return f"{source}: expected labels, got a split that has no labels; use another split, such as 'dev'"
