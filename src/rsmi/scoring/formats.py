"""A file to be scored and the ending of the result -> what is in the one, and how to write the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from rsmi.data.files import DELIMITERS
from rsmi.errors import DataError
from rsmi.scoring.answers import Cells, Column
from rsmi.scoring.lines import LinesFormat, plain_table
from rsmi.scoring.source import Chunk, Source, Survey, survey
from rsmi.scoring.tables import TableFormat, Types

_ENDINGS: Final = (*DELIMITERS, ".jsonl", ".parquet")


class Format(Protocol):
    """How parts of the result are written and joined."""

    def write(self, path: Path, chunk: Chunk, added: Sequence[Cells]) -> None:
        """Write one part: rows and what is added to them."""
        ...

    def join(self, parts: Iterable[Path], path: Path) -> None:
        """Write the file that parts make, without holding it in memory."""
        ...


def ending_of(out: Path) -> str:
    """Return what the name of a result ends in, which says its format."""
    ending = out.suffix.lower()
    if ending not in _ENDINGS:
        raise DataError(f"{out}: expected a name ending in {', '.join(_ENDINGS)} for the result, got {out.name!r}")
    return ending


def prepare(
    source: Source, ending: str, added: tuple[Column, ...], stop: bool, seen: Callable[[Chunk], None]
) -> tuple[Survey, Format]:
    """Read a file once, check everything about it that could stop the run later, and choose how to write the result.

    Args:
        source: The file.
        ending: Of the result.
        added: The columns of the predictions.
        stop: Whether a bad row is an error.
        seen: Called with every chunk, for a progress bar.

    Raises:
        DataError: For a bad row, if asked, and for values that the result cannot hold.
    """
    json_rows = not (source.tabular or source.untyped)
    if ending == ".parquet":
        types = Types(source.path)
        found = survey(source, stop, seen, *([types.look] if json_rows else ()))
        return found, TableFormat(types.schema() if json_rows else _known_schema(source, found.names), added)
    if source.tabular:
        plain_table(source.schema.empty_table(), source.path)
    delimiter = DELIMITERS.get(ending)
    check = LinesFormat((), added, delimiter, source.path).check
    found = survey(source, stop, seen, *([check] if json_rows and delimiter is not None else ()))
    return found, LinesFormat(found.names, added, delimiter, source.path)


def _known_schema(source: Source, names: Sequence[str]) -> Any:
    import pyarrow as pa

    return source.schema if source.tabular else pa.schema([pa.field(name, pa.string()) for name in names])
