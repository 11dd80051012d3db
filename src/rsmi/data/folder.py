"""The folder named by the environment variable RSMI_DATA -> the benchmark sets with their official test parts."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rsmi.data.dataset import TextDataset
from rsmi.data.files import read_file
from rsmi.data.labels import named_labels
from rsmi.data.splits import hash_part, train_or_dev
from rsmi.errors import DataError

FOLDER_VARIABLE: Final = "RSMI_DATA"
"""Environment variable that names the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FolderSet:
    """Where the parts of one set are."""

    files: dict[str, str]
    """Split -> file name without `.csv.gz`; `all` for a set without official splits."""
    names: tuple[str, ...] = ()
    """Classes by integer; empty where the file has a column `label_name`."""
    notes: dict[str, str]
    """Split -> what a report must say about it."""


_SUBSET: Final = "a subset of the official train set"
_DEV_AS_TEST: Final = "the official dev set, used as test"

# The test set of QNLI has no public labels, so its dev set is the test set here and dev comes out of train; SNLI goes
# the same way because the folder holds only its dev set.
_SETS: Final = MappingProxyType(
    {
        "ag_news": _FolderSet(
            files={"train": "ag_news_train_subset", "test": "ag_news_test"},
            names=("World", "Sports", "Business", "Sci/Tech"),
            notes={"train": _SUBSET},
        ),
        "imdb": _FolderSet(files={"train": "imdb_train", "test": "imdb_test"}, names=("neg", "pos"), notes={}),
        "mr": _FolderSet(
            files={"train": "mr_train", "dev": "mr_dev", "test": "mr_test"}, names=("neg", "pos"), notes={}
        ),
        "qnli": _FolderSet(
            files={"train": "qnli_train_subset", "test": "qnli_dev"}, notes={"train": _SUBSET, "test": _DEV_AS_TEST}
        ),
        "sms_spam": _FolderSet(
            files={"all": "sms_spam"}, names=("ham", "spam"), notes={"all": "without duplicates, cut 80/10/10 by hash"}
        ),
        "snli": _FolderSet(
            files={"train": "snli_train_subset", "test": "snli_dev"}, notes={"train": _SUBSET, "test": _DEV_AS_TEST}
        ),
    }
)
FOLDER_SETS: Final = tuple(_SETS)
"""Names of the sets the folder holds."""


def data_folder() -> Path | None:
    """Return the folder RSMI_DATA names, or None if the variable is unset or empty."""
    value = os.environ.get(FOLDER_VARIABLE)
    return Path(value) if value else None


def folder_dataset(folder: Path, name: str, split: str, dev_fraction: float = 0.1, seed: int = 0) -> TextDataset:
    """Read `train`, `dev` or `test` of a named set.

    Where the set has no dev file, dev is a stratified part of train, and train the rest of it.

    Args:
        folder: Where the files are.
        name: One of `FOLDER_SETS`.
        split: The part.
        dev_fraction: Share of train that becomes dev.
        seed: Which rows become dev.
    """
    if name not in _SETS or split not in ("train", "dev", "test"):
        known = ", ".join(FOLDER_SETS)
        raise DataError(f"expected one of {known} and train, dev or test, got {name!r} and {split!r}")
    if not folder.is_dir():
        raise DataError(
            f"expected {FOLDER_VARIABLE} to name a folder, got {str(folder)!r}; correct the variable or unset it"
        )
    files = _SETS[name].files
    if "all" in files:
        return hash_part(_read(folder, name, "all"), split)
    if split in files and (split == "test" or "dev" in files):
        return _read(folder, name, split)
    return train_or_dev(_read(folder, name, "train"), split, dev_fraction, seed)


def _read(folder: Path, name: str, split: str) -> TextDataset:
    entry = _SETS[name]
    path = folder / f"{entry.files[split]}.csv.gz"
    if not path.is_file():
        raise DataError(
            f"expected the file {path.name} in {FOLDER_VARIABLE}={str(folder)!r}, got none; "
            "add it or unset the variable"
        )
    data = read_file(path, label_column="label" if entry.names else "label_name", name=name)
    labels = named_labels(data.labels, entry.names, str(path)) if entry.names else data.labels
    note = f" ({entry.notes[split]})" if split in entry.notes else ""
    # not the whole path: where the folder is on one machine says nothing to the reader of a record on another
    return replace(data, split=split, labels=labels, source=f"{FOLDER_VARIABLE}/{path.name}{note}")
