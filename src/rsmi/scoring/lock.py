"""A run in progress -> a lock file beside its result, so that no second run writes into the same one."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rsmi.errors import BusyError, DataError

if sys.platform != "win32":
    import fcntl


@contextmanager
def only_run(result: Path) -> Iterator[None]:
    """Hold `RESULT.lock`, which says who does, while the block runs.

    The system holds the lock for a process and lets go of it when that ends, however it ends: what a killed run leaves
    behind is taken over. Windows has no such locks; there nothing is held.

    Raises:
        BusyError: If another run holds it.
        DataError: If the file cannot be written.
    """
    path = result.with_name(f"{result.name}.lock")
    if sys.platform == "win32":
        yield
        return
    held = _taken(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is let go, so that nobody removes the file of the next run
        os.close(held)


def _taken(path: Path) -> int:
    """Return the open file, locked and with the name of this process in it."""
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(file, path):  # else its holder has just finished and removed it
                os.ftruncate(file, 0)
                os.write(file, json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
                return file
        except OSError as error:
            os.close(file)
            if not isinstance(error, BlockingIOError):
                raise DataError(f"{path}: cannot be locked: {error.strerror or error}") from error
            raise BusyError(
                f"{path}: expected no other run for this result, got one that is under way{_holder(path)}; wait until "
                "it has ended, or choose another --out"
            ) from None
        os.close(file)


def _same_file(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _holder(path: Path) -> str:
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
        return f" (process {int(about['pid'])} on {about['host']})"
    except (OSError, ValueError, KeyError, TypeError):  # it has the lock, but has not written its name yet
        return ""
