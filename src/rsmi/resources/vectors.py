"""Word -> nearest words and cosines in a space of counter-fitted vectors, read once and kept in the cache."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rsmi.data.packages import sha256_of
from rsmi.errors import ConfigError, DataError, MissingResourceError
from rsmi.resources.cache import Writer, has_entry, read_entry, write_entry
from rsmi.resources.neighbours import Indices, nearest
from rsmi.resources.vector_files import Floats, Table, read_vectors

NEIGHBOURS: Final = 50
"""Nearest words kept for each word: what TextFooler asks for."""
VARIABLE: Final = "RSMI_COUNTERFITTED"
"""Environment variable with the path of the vectors to use."""
STOCK: Final = "vectors-stock"
"""Cache entry that says which file the user fetched."""
BUILT: Final = "vectors-built"
"""Cache entry of the vectors built on this machine."""
BUILD: Final = "rsmi resources build vectors"
"""The command that builds vectors."""
_FETCH: Final = "rsmi resources fetch vectors --from"
_WORDS, _VECTORS, _INDICES, _COSINES = "words.txt", "vectors.npy", "neighbours.npy", "cosines.npy"


class WordVectors:
    """Word vectors of length 1, with the nearest neighbours of each word."""

    def __init__(self, table: Table, indices: Indices, cosines: Floats, about: Mapping[str, Any]) -> None:
        """Wrap what the cache holds; `open` reads it."""
        self.words = table.words
        """The words, by index."""
        self.vectors = table.vectors
        """(words, width) float32, rows of length 1, on disk until they are used."""
        self.name = str(about["name"])
        """A short name, for reports."""
        self.source = str(about["source"])
        """Where the vectors come from, for reports."""
        self.fingerprint = str(about["fingerprint"])
        """A number that follows words and vectors."""
        self._index = {word: i for i, word in enumerate(self.words)}
        self._neighbours = indices
        self._cosines = cosines

    @classmethod
    def open(cls, path: str | Path | None = None, progress: bool = False) -> WordVectors:
        """Open counter-fitted vectors; the first time, a file is read whole and its neighbours are computed (minutes).

        Args:
            path: The published `counter-fitted-vectors.txt` or another text file with a word and its numbers on each
                line, or a `.npz` file with `words` and `vectors`. If None: the file that `RSMI_COUNTERFITTED` names,
                else the one fetched into the cache, else the vectors built on this machine.
            progress: Whether to draw a bar on stderr.

        Raises:
            MissingResourceError: If there are none.
            DataError: If the file or the cache is damaged; the message names file, line and what to run.
        """
        if path is None:
            path = os.environ.get(VARIABLE) or None
        if path is not None:
            return cls._from_entry(_parsed(Path(path), progress), f"{_FETCH} {path}")
        if has_entry(STOCK):
            _, about = read_entry(STOCK, f"{_FETCH} FILE")
            return cls._from_entry(str(about["entry"]), f"{_FETCH} {about['path']}")
        if has_entry(BUILT):
            return cls.open_built()
        raise MissingResourceError(
            f"expected counter-fitted word vectors, got none; run: {BUILD} (or, with the published file: "
            f"{_FETCH} counter-fitted-vectors.txt)"
        )

    @classmethod
    def open_built(cls) -> WordVectors:
        """Open the vectors built on this machine, whatever else there is."""
        return cls._from_entry(BUILT, BUILD)

    @classmethod
    def _from_entry(cls, entry: str, rebuild: str) -> WordVectors:
        folder, about = read_entry(entry, rebuild)
        words = tuple((folder / _WORDS).read_text(encoding="utf-8").split("\n"))
        # a plain view of the map: indexing a memmap itself is slow
        vectors, indices, cosines = (
            np.load(folder / name, mmap_mode="r", allow_pickle=False).view(np.ndarray)
            for name in (_VECTORS, _INDICES, _COSINES)
        )
        return cls(Table(words, vectors), indices, cosines, about)

    def __len__(self) -> int:
        """Number of words."""
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        """Whether a word has a vector; the case counts."""
        return word in self._index

    def neighbours(self, word: str, count: int = NEIGHBOURS) -> list[tuple[str, float]]:
        """Return the nearest words and their cosines, nearest first, `word` itself excluded; none for an unknown word.

        TextAttack orders by Euclidean distance; between vectors of length 1 that is the order of the cosines.
        """
        if not 0 <= count <= NEIGHBOURS:
            raise ConfigError(f"count: expected 0 to {NEIGHBOURS} neighbours, got {count}")
        i = self._index.get(word)
        if i is None:
            return []
        indices, cosines = self._neighbours[i, :count].tolist(), self._cosines[i, :count].tolist()
        return [(self.words[k], cosine) for k, cosine in zip(indices, cosines, strict=True)]

    def cosine(self, first: str, second: str) -> float | None:
        """Return the cosine of two words, or None if one is unknown."""
        return self.similarities(first, (second,))[0]

    def similarities(self, word: str, others: Sequence[str]) -> list[float | None]:
        """Return the cosine of `word` with each other word, None where one of the two is unknown."""
        i = self._index.get(word)
        places = [self._index.get(other) for other in others]
        known = [place for place in places if place is not None]
        if i is None or not known:
            return [None] * len(others)
        found = iter((self.vectors[known].astype(np.float64) @ self.vectors[i].astype(np.float64)).tolist())
        return [None if place is None else next(found) for place in places]


def fetch_vectors(path: str | Path, progress: bool = False) -> WordVectors:
    """Read a file of vectors into the cache anew and make it the one that is used.

    Args:
        path: As for `WordVectors.open`.
        progress: Whether to draw a bar on stderr.
    """
    where = Path(path).expanduser().absolute()
    entry = _parsed(where, progress, anew=True)
    write_entry(STOCK, {}, {"entry": entry, "path": str(where)})
    return WordVectors._from_entry(entry, f"{_FETCH} {where}")


def store_vectors(entry: str, table: Table, name: str, source: str, progress: bool = False) -> None:
    """Write words, vectors and their neighbours into the cache in one step.

    Args:
        entry: Name of the cache entry.
        table: Words and vectors.
        name: A short name.
        source: Where they come from.
        progress: Whether to draw a bar on stderr.
    """
    if len(table.words) < 2:
        raise DataError(f"{source}: expected at least two words, got {len(table.words)}")
    indices, cosines = nearest(table.vectors, NEIGHBOURS, progress)
    arrays = {_VECTORS: table.vectors, _INDICES: indices, _COSINES: cosines}
    text = "\n".join(table.words)
    digest = hashlib.sha256(text.encode("utf-8") + table.vectors.tobytes()).hexdigest()
    writers: dict[str, Writer] = {_WORDS: lambda path: _write_text(path, text)}
    writers |= {file: _array_writer(array) for file, array in arrays.items()}
    write_entry(entry, writers, {"name": name, "source": source, "fingerprint": digest[:16]})


def _parsed(path: Path, progress: bool, anew: bool = False) -> str:
    """Return the name of the cache entry of a file; it is made if need be."""
    if not path.is_file():
        raise DataError(f"{path}: expected a file of word vectors, got no such file; check the path")
    entry = f"vectors-{sha256_of(path)[:16]}"
    if anew or not has_entry(entry):
        store_vectors(entry, read_vectors(path), path.name, f"{path.name} (sha256 {sha256_of(path)[:16]})", progress)
    return entry


def _write_text(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8"))


def _array_writer(array: np.ndarray[Any, Any]) -> Writer:
    def write(path: Path) -> None:
        np.save(path, array, allow_pickle=False)

    return write
