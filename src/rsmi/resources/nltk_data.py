"""The user's own NLTK data: where they are, and the bytes of their files; NLTK itself need not be installed."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from rsmi.errors import DataError


def nltk_folders() -> Iterator[Path]:
    """Yield the folders NLTK searches, in its order: those of `NLTK_DATA`, then the usual ones."""
    for folder in os.environ.get("NLTK_DATA", "").split(os.pathsep):
        if folder:
            yield Path(folder)
    yield Path.home() / "nltk_data"
    for below in ("nltk_data", "share/nltk_data", "lib/nltk_data"):
        yield Path(sys.prefix) / below
    for shared in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib"):
        yield Path(shared) / "nltk_data"


def find_in_nltk_data(name: str, file: str) -> Path | None:
    """Return the folder of a resource such as `corpora/wordnet`, or its zip archive; None if the user has neither.

    Args:
        name: Path of the resource below a data folder.
        file: A file that marks the folder as complete enough to be meant.
    """
    for folder in nltk_folders():
        if (folder / name / file).is_file():
            return folder / name
        archive = folder / f"{name}.zip"
        if archive.is_file():
            return archive
    return None


def read_all(place: Path, names: Iterable[str], fix: str) -> dict[str, bytes]:
    """Read files of a folder, or of the folder of the same name inside a zip archive, whole.

    Args:
        place: The folder or archive.
        names: The files.
        fix: The command that gets sound ones, for messages.
    """
    if place.suffix != ".zip":
        return {name: _read(place / name, fix) for name in names}
    found = {}
    try:
        with zipfile.ZipFile(place) as archive:
            for name in names:
                found[name] = archive.read(f"{place.stem}/{name}")
    except (OSError, KeyError, zipfile.BadZipFile, zipfile.LargeZipFile, RuntimeError, EOFError) as error:
        raise DataError(f"{place}: expected a zip archive with {place.stem}/, got {error}; run: {fix}") from error
    return found


def _read(path: Path, fix: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: expected a file, got {error.strerror or error}; run: {fix}") from error
