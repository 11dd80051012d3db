"""Where built resources live: folders that are written in one step and checked by digest when they are read."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rsmi.data.packages import sha256_of
from rsmi.errors import DataError

_MANIFEST: Final = "manifest.json"
_STALE_SECONDS: Final = 24 * 3600
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")

Writer = Callable[[Path], None]
"""Writes one file to the path it is given."""


def cache_folder() -> Path:
    """Return the folder of built resources: `RSMI_CACHE`, else `rsmi` in the user's cache folder; it may not exist."""
    own = os.environ.get("RSMI_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "rsmi"


def entry_folder(name: str) -> Path:
    """Return where the entry `name` is, or would be."""
    if not name or not _SAFE.issuperset(name):
        raise ValueError(f"expected lower-case letters, digits and hyphens as the name of a cache entry, got {name!r}")
    return cache_folder() / name


def has_entry(name: str) -> bool:
    """Whether an entry was written; its files are checked when it is read."""
    return (entry_folder(name) / _MANIFEST).is_file()


def write_entry(name: str, writers: Mapping[str, Writer], about: Mapping[str, Any]) -> Path:
    """Write the files of an entry beside it and put them in its place in one step.

    Args:
        name: Name of the entry; one of that name is replaced.
        writers: File name -> what writes it.
        about: Plain JSON values kept with the entry.
    """
    target = entry_folder(name)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_stale(target.parent)
        partial = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".part", dir=target.parent))
    except OSError as error:
        raise DataError(
            f"{target.parent}: expected a folder that can be written, got {error.strerror or error}; "
            "set RSMI_CACHE to another one"
        ) from error
    try:
        for file, write in writers.items():
            write(partial / file)
        facts = {
            file: {"bytes": (partial / file).stat().st_size, "sha256": sha256_of(partial / file)} for file in writers
        }
        manifest = json.dumps({"about": dict(about), "files": facts}, indent=1, ensure_ascii=False)
        (partial / _MANIFEST).write_text(manifest + "\n", encoding="utf-8")
        partial.chmod(0o755)  # mkdtemp gives 0700; a cache may be shared
        _put_in_place(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def read_entry(name: str, rebuild: str) -> tuple[Path, dict[str, Any]]:
    """Return the folder of an entry and what is known about it, once each of its files is checked.

    Args:
        name: Name of the entry.
        rebuild: The command that makes it anew, for messages.

    Raises:
        DataError: If a file is missing, cut short or changed; the message names it and the command.
    """
    folder = entry_folder(name)
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        about, files = dict(manifest["about"]), dict(manifest["files"])
        expected = {str(file): (int(facts["bytes"]), str(facts["sha256"])) for file, facts in files.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: expected the list of files of a finished resource, got a damaged one; run: {rebuild}"
        ) from error
    for file, (size, digest) in expected.items():
        _check(folder / file, size, digest, rebuild)
    return folder, about


def remove_entry(name: str) -> None:
    """Remove an entry, if there is one."""
    shutil.rmtree(entry_folder(name), ignore_errors=True)


def _check(path: Path, size: int, digest: str, rebuild: str) -> None:
    try:
        got = path.stat().st_size
        sound = got == size and sha256_of(path) == digest
    except OSError as error:
        raise DataError(f"{path}: expected {size} bytes, got {error.strerror or error}; run: {rebuild}") from error
    if not sound:
        what = f"{got} bytes: the file was cut short" if got < size else f"{got} bytes with another sha256"
        raise DataError(f"{path}: expected {size} bytes with sha256 {digest[:16]}..., got {what}; run: {rebuild}")


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename `partial` to `target`; a folder in the way is moved aside first, for no folder can be replaced by name."""
    aside = partial.with_name(f"{partial.name}.old.part")
    with suppress(FileNotFoundError):
        target.rename(aside)
    try:
        partial.rename(target)
    except OSError:  # another process put its own there in between: as good as ours
        if not (target / _MANIFEST).is_file():
            raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove_stale(folder: Path) -> None:
    """Remove what processes killed a day ago or earlier left unfinished."""
    for partial in folder.glob(".*.part"):
        try:
            old = time.time() - partial.stat().st_mtime > _STALE_SECONDS
        except OSError:
            continue
        if old:
            shutil.rmtree(partial, ignore_errors=True)
