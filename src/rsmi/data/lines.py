"""Text file, gzipped or not -> its lines, checked."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


class BrokenLineError(ValueError):
    """A line cannot be used; whoever reads the lines adds the file and the row. The next line can still be read."""


class BrokenFileError(BrokenLineError):
    """Nothing after this can be read."""


def read_lines(path: Path, newline: str) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file with their endings; a byte order mark at the start is skipped.

    Args:
        path: The file; a name ending in `.gz` is decompressed on the fly.
        newline: As in `open`: `""` ends lines at any of `\n`, `\r`, `\r\n`, and `"\n"` only there.

    Raises:
        BrokenLineError: At a line that is not UTF-8 or holds a NUL byte; asked again, the lines after it follow.
        BrokenFileError: Where the file cannot be read or decompressed any further.
    """
    return map(_checked, _raw_lines(path, newline))  # a map goes on after an error, a generator would be at its end


def _raw_lines(path: Path, newline: str) -> Iterator[str]:
    try:
        with _open(path, newline) as lines:
            yield from lines
    except EOFError as error:
        raise BrokenFileError("the gzip data end too early; copy or download the file again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BrokenFileError(f"expected gzip data, got damaged ones ({error}); copy the file again") from error
    except OSError as error:
        raise BrokenFileError(
            f"the file cannot be read ({error.strerror or error}); check the path and its permissions"
        ) from error


def _open(path: Path, newline: str) -> TextIO:
    # surrogateescape: a bad byte must not stop the decoder in mid-buffer, where the line number is unknown
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline=newline)
    return path.open(encoding="utf-8-sig", errors="surrogateescape", newline=newline)


def _checked(line: str) -> str:
    if "\0" in line:
        raise BrokenLineError("expected text, got a NUL byte; save the file as plain UTF-8 text")
    if line.isascii():
        return line
    bad = next((char for char in line if "\ud800" <= char <= "\udfff"), None)
    if bad is not None:
        raise BrokenLineError(f"expected UTF-8, got the byte 0x{ord(bad) & 0xFF:02x}; save the file as UTF-8")
    return line
