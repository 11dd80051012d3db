"""How a command ends: its exit code, what an interruption keeps, and what the machine refused in one sentence."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, TextIO

import typer

EXIT_CODES: Final = {
    0: "Done.",
    1: "An error: one sentence on stderr says what happened, where, and what to do. Also `rsmi certify` and `rsmi "
    "report` when an attack broke a certificate, and `rsmi doctor` when the embedded default is not complete.",
    2: "A wrong use of the command: an unknown command or option, a missing argument, a number out of range.",
    3: "`rsmi gate`: the model was attacked, and a threshold does not hold.",
    130: "Interrupted with Ctrl-C; stderr says what is kept and how to go on.",
}
"""Every exit code with its meaning; docs/cli.md is written from it."""
INTERRUPTED: Final = 130

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_FOLDER: Final = (errno.EEXIST, errno.ENOTDIR)
_FORBIDDEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_MEMORY: Final = ("can't allocate memory", "out of memory")  # torch's words, on a CPU and on a GPU


@contextmanager
def interruptible(kept: str) -> Iterator[None]:
    """Say on Ctrl-C what is kept, and end with the exit code of an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; {kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show what the library warns of as a line on stderr, without the place in its code."""
    from rsmi.errors import RsmiWarning

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, RsmiWarning):
                typer.echo(f"warning: {message}", err=True)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def check_writable(out: Path) -> None:
    """Refuse a file that cannot be written, before the work; make the folders above it."""
    from rsmi.errors import DataError

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=out.parent):  # permissions alone do not tell
            pass
    except OSError as error:
        raise DataError(f"{out}: cannot write there: {_reason(error)}; {_way_out(error)}") from error


def refused(error: BaseException) -> str | None:
    """Return what the machine refused and the way out in one sentence; None for an error that is somebody's mistake."""
    if isinstance(error, OSError):
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        return f"{place}cannot be read or written: {_reason(error)}; {_way_out(error)}"
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _is_memory(error)):
        return f"expected enough memory, got too little ({_first_line(error)}); lower --token-budget or --batch-size"
    return None


def _reason(error: OSError) -> str:
    if error.errno in _NO_FOLDER and isinstance(error.filename, str):
        return f"{error.filename} is a file, not a folder"
    return error.strerror or _first_line(error)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__


def _is_memory(error: BaseException) -> bool:
    return any(words in str(error) for words in _MEMORY)


def _way_out(error: OSError) -> str:
    if error.errno in _FULL:
        return "make room and run the command again; what was written before is kept, and --resume goes on with it"
    if error.errno in _FORBIDDEN:
        return "choose a place that you may write to"
    return "check the path"
