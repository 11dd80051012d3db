"""Files that come inside PyPI packages: found by pip's metadata and checked, without importing the package."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Final

from rsmi.errors import DataError, MissingResourceError, RsmiError

_CHUNK: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFile:
    """One file of one release of a package."""

    what: str
    """What it is good for, for messages."""
    distribution: str
    """Name of the package."""
    file: str
    """Path inside `site-packages`."""
    sha256: str
    """Digest of the release's file."""
    install: str
    """The command that installs the release."""


def located(package: PackageFile) -> Path | None:
    """Return the file by the metadata pip left, which runs none of the package's code; None if it is not there."""
    path = _expected(package)
    return path if path is not None and path.is_file() else None


def checked(package: PackageFile, error: type[RsmiError] = DataError) -> Path:
    """Return the file once its content is known to be that of the release.

    Args:
        package: The file.
        error: What to raise if the file is missing from the package or its content is another one.

    Raises:
        MissingResourceError: If the package is not installed.
    """
    path = _expected(package)
    if path is None:
        raise MissingResourceError(
            f"expected {package.what} from the package {package.distribution}, got no such package; "
            f"run: {package.install}"
        )
    got = sha256_of(path) if path.is_file() else "no such file"
    if got != package.sha256:
        raise error(
            f"{path}: expected sha256 {package.sha256}, got {got}; the file is damaged or of another release, "
            f"run: {package.install} --force-reinstall"
        )
    return path


def _expected(package: PackageFile) -> Path | None:
    try:
        return Path(str(metadata.distribution(package.distribution).locate_file(package.file)))
    except metadata.PackageNotFoundError:
        return None


def sha256_of(path: Path) -> str:
    """Return the digest of a file, read once a process as long as the file stays the same."""
    facts = path.stat()
    return _cached_sha256(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=128)
def _cached_sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    """Hash a file once per process; size and time in the key make a changed file hash again."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
