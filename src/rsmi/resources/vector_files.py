"""A file of word vectors, text or `.npz` -> words and unit rows, checked line by line."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from rsmi.data.lines import BrokenLineError, read_lines
from rsmi.errors import DataError

Floats = np.ndarray[Any, np.dtype[np.float32]]
"""An array of float32."""
FIX: Final = "get the file again, or make vectors of your own; run: rsmi resources build vectors"
"""The way out of a broken file, for messages."""


@dataclass(frozen=True, slots=True)
class Table:
    """Words and their vectors."""

    words: tuple[str, ...]
    """Each word once."""
    vectors: Floats
    """(words, width), rows of length 1."""


def read_vectors(path: Path) -> Table:
    """Read word vectors: text with a word and its numbers on each line (`.gz` too), or `.npz` with `words`, `vectors`.

    Raises:
        DataError: If the file is missing, empty, cut short or otherwise broken; the message names the line.
    """
    if not path.is_file():
        raise DataError(f"{path}: expected a file of word vectors, got no such file; check the path")
    if path.suffix.lower() == ".npz":
        words, vectors = _read_npz(path)
        return make_table(words, vectors, f"{path}, word")
    numbers, words, vectors = _read_text(path)
    return make_table(words, vectors, f"{path}, line", numbers[0])


def make_table(words: Sequence[str], vectors: np.ndarray[Any, Any], where: str, first: int = 1) -> Table:
    """Check words and vectors and scale each vector to length 1.

    Args:
        words: The words.
        vectors: (words, width).
        where: What to call a place among them in messages, up to its number.
        first: Number of the first place.
    """
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        shape = "x".join(map(str, vectors.shape))
        raise DataError(
            f"{where.rpartition(',')[0]}: expected as many vectors as words, got {len(words)} words and vectors of "
            f"shape {shape}; {FIX}"
        )
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=1)
    seen: set[str] = set()
    for i, (word, length) in enumerate(zip(words, lengths.tolist(), strict=True)):
        if not 0 < length < np.inf:
            what = "NaN or infinity" if length else "only zeros"
            raise DataError(f"{where} {first + i} ({word!r}): expected finite numbers, got {what}; {FIX}")
        if not word or word in seen or word != word.strip() or "\n" in word:
            raise DataError(f"{where} {first + i}: expected each word once, got {word!r} again or no word; {FIX}")
        seen.add(word)
    return Table(tuple(words), (wide / lengths[:, None]).astype(np.float32))


def _read_text(path: Path) -> tuple[list[int], list[str], Floats]:
    numbers: list[int] = []
    words: list[str] = []
    rows: list[Floats] = []
    for number, line in numbered_lines(path):
        fields = line.split()
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue  # word2vec's header: how many words, how many numbers
        where = f"{path}, line {number}"
        if len(fields) < 2:
            raise DataError(f"{where}: expected a word and its numbers, got {line.strip()[:60]!r}; {FIX}")
        try:
            row = np.array(fields[1:], dtype=np.float32)
        except ValueError as error:
            raise DataError(f"{where} ({fields[0]!r}): expected numbers after the word, got {error}; {FIX}") from error
        if rows and len(row) != len(rows[0]):
            raise DataError(
                f"{where} ({fields[0]!r}): expected {len(rows[0])} numbers as on the lines before, got {len(row)}: "
                f"the line was cut short or is of another file; {FIX}"
            )
        numbers.append(number)
        words.append(fields[0])
        rows.append(row)
    if not rows:
        raise DataError(f"{path}: expected a word and its numbers on each line, got an empty file; {FIX}")
    return numbers, words, np.stack(rows)


def numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers; a broken one is a DataError that names it."""
    lines = read_lines(path, newline="\n")
    number = 0
    while True:
        number += 1
        try:
            line = next(lines, None)
        except BrokenLineError as error:
            raise DataError(f"{path}, line {number}: {error}") from error
        if line is None:
            return
        yield number, line


def _read_npz(path: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    try:
        # opened here: np.load leaves a file it cannot read open
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            missing = {"words", "vectors"} - set(arrays.files)
            if missing:
                raise DataError(
                    f"{path}: expected the arrays words and vectors, got {', '.join(sorted(arrays.files)) or 'none'}; "
                    f"{FIX}"
                )
            words, vectors = arrays["words"], arrays["vectors"]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: expected a .npz file, got a damaged one ({error}); {FIX}") from error
    if words.ndim != 1 or words.dtype.kind != "U" or vectors.dtype.kind not in "fiu":
        raise DataError(
            f"{path}: expected words as strings and vectors as numbers, got {words.dtype} and {vectors.dtype}; {FIX}"
        )
    return words.tolist(), vectors
