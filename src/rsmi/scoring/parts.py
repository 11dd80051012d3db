"""A run in progress <-> the folder `OUT.parts`: a manifest of what is scored by what, and the chunks done so far.

OUT.parts/manifest.json           a run of anything else does not go on here
OUT.parts/part-00000012.parquet   chunk 12, there whole or not at all
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsmi.errors import DataError

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """The chunks of a result that is not finished."""

    out: Path

    @property
    def folder(self) -> Path:
        """Where they are."""
        return self.out.with_name(f"{self.out.name}.parts")

    def check_free(self, resume: bool) -> None:
        """Refuse to overwrite a result, or another run.

        Raises:
            DataError: If `out` exists, or an interrupted run is there and shall not be resumed.
        """
        begun = self.folder.exists()
        if self.out.exists() and not begun:
            raise DataError(f"{self.out}: exists already; choose another file, or remove this one")
        if begun and not resume:
            raise DataError(
                f"{self.folder}: holds a run that was interrupted; pass resume=True (--resume) to go on with it, or "
                "remove the folder"
            )

    def claim(self, manifest: Mapping[str, Any]) -> None:
        """Make the folder belong to a run, or make sure that it does.

        Raises:
            DataError: If the folder belongs to another run; the message says what differs.
        """
        wanted = json.loads(json.dumps(manifest))  # as it looks after a round trip through JSON
        known = self._manifest()
        if known is None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                text = json.dumps(wanted, indent=1)
                self._put(self.folder / _MANIFEST, lambda fresh: fresh.write_text(text, encoding="utf-8"))
            except OSError as error:
                raise DataError(f"{self.folder}: cannot keep the run there: {error.strerror or error}") from error
            return
        differing = sorted(name for name in {*known, *wanted} if known.get(name) != wanted.get(name))
        if differing:
            shown = "; ".join(f"{name} was {known.get(name)!r}, is {wanted.get(name)!r}" for name in differing)
            raise DataError(
                f"{self.folder}: expected a run of the same model, settings and input to go on with, but {shown}; "
                "use the old ones, or remove the folder to start afresh"
            )

    def path(self, number: int) -> Path:
        """Return where a chunk goes."""
        return self.folder / f"part-{number:08d}{self.out.suffix.lower()}"

    def missing(self, num: int) -> set[int]:
        """Return which of `num` chunks are still to be done.

        Raises:
            DataError: If some are, although the result is there: it is not that of this run.
        """
        left = {number for number in range(num) if not self.path(number).exists()}
        if left and self.out.exists():
            raise DataError(f"{self.out}: exists already, but the run in {self.folder} is not finished; move it away")
        return left

    def save(self, number: int, write: Callable[[Path], None]) -> None:
        """Write a chunk under another name and give it its own once it is complete and on the disk."""
        try:
            self._put(self.path(number), write)
        except OSError as error:
            raise self._full(error) from error

    def finish(self, num: int, join: Callable[[list[Path], Path], None]) -> None:
        """Join `num` chunks, put the result in its place and remove the folder."""
        fresh = self.folder / f".joined{self.out.suffix.lower()}"
        try:
            self._put(self.out, lambda path: join([self.path(number) for number in range(num)], path), fresh)
        except OSError as error:
            raise self._full(error) from error
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            raise DataError(
                f"{self.folder}: cannot be removed ({error.strerror or error}); {self.out} is complete: do it by hand"
            ) from error

    def _manifest(self) -> dict[str, Any] | None:
        """Return what the folder belongs to; None where there is nothing in it yet."""
        path = self.folder / _MANIFEST
        if not path.exists():
            if self.folder.is_file():
                raise DataError(f"{self.folder}: expected a folder for the parts of the run, got a file; move it away")
            begun = self.folder.iterdir() if self.folder.exists() else ()
            if any(not other.name.startswith(f".{_MANIFEST}.") for other in begun):
                raise DataError(f"{self.folder}: expected the parts of an interrupted run, got other files")
            return None
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: expected the manifest of a run, got a damaged one; remove the folder") from error
        if not isinstance(found, dict):
            raise DataError(f"{path}: expected the manifest of a run, got a damaged one; remove the folder")
        return found

    def _put(self, target: Path, write: Callable[[Path], Any], fresh: Path | None = None) -> None:
        fresh = fresh or target.with_name(f".{target.name}.{os.getpid()}")
        try:
            write(fresh)
            with fresh.open("rb") as file:
                os.fsync(file.fileno())  # a rename may otherwise outlive what it renames
            os.replace(fresh, target)
        finally:
            fresh.unlink(missing_ok=True)

    def _full(self, error: OSError) -> DataError:
        return DataError(
            f"{self.folder}: cannot write there: {error.strerror or error}; the chunks done are kept: make room and "
            "pass resume=True (--resume)"
        )
