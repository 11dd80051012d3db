"""The folder of a reproduction -> what its steps found, read back by the specs that asked for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from rsmi.errors import DataError
from rsmi.evaluation.attacking import read_run
from rsmi.evaluation.runs import Run
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Attacked, Measured, Step, Trained
from rsmi.writing import write_text


@dataclass(frozen=True, slots=True)
class Results:
    """Where everything that was found is kept."""

    scale: Scale
    folder: Path

    def file_of(self, step: Step) -> Path:
        """Return the file that a step ends in."""
        if isinstance(step, Trained):
            return self.folder / "models" / f"{step.name}.json"
        if isinstance(step, Attacked):
            return self.folder / "records" / f"{step.name}.jsonl"
        return self.folder / "measures" / f"{step.name}.json"

    def done(self, step: Step) -> bool:
        """Return whether a step is finished."""
        file = self.file_of(step)
        return file.exists() and (not isinstance(step, Attacked) or _complete(file, _changed(file)))

    def run(self, cell: Attacked) -> Run:
        """Return a finished attack."""
        file = self.file_of(cell)
        return _read_run(file, _changed(file))

    def measure(self, measured: Measured) -> dict[str, Any]:
        """Return what was measured."""
        return self._values(measured)

    def trained(self, model: Trained) -> dict[str, Any]:
        """Return what is known of a model: settings, texts, accuracy on dev texts."""
        return self._values(model)

    def write(self, step: Step, values: dict[str, Any]) -> None:
        """Keep what a step found."""
        file = self.file_of(step)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(values, indent=1) + "\n")

    def set_aside(self, steps: Iterable[Step]) -> Path | None:
        """Move what steps found into a new folder `aside/NUMBER` and return that, None if they have found nothing."""
        files = [file for file in map(self.file_of, steps) if file.exists()]
        if not files:
            return None
        aside = next(path for number in count(1) if not (path := self.folder / "aside" / str(number)).exists())
        for file in files:
            target = aside / file.relative_to(self.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)
        return aside

    def check_scale(self) -> None:
        """Make sure that the folder holds results of this scale, and of no other.

        Raises:
            DataError: If it was made with other sizes or settings.
        """
        file, own = self.folder / "scale.json", json.loads(json.dumps(asdict(self.scale)))
        if file.exists():
            found = json.loads(file.read_text(encoding="utf-8"))
            differing = sorted(name for name in {**found, **own} if found.get(name) != own.get(name))
            if differing:
                raise DataError(
                    f"{self.folder}: holds results of another scale (other {', '.join(differing)}); choose another "
                    "--out"
                )
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(own, indent=1) + "\n")

    def _values(self, step: Step) -> dict[str, Any]:
        file = self.file_of(step)
        try:
            values: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{file}: cannot read what a step found: {error}; remove it and run again") from error
        return values


def _changed(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


@lru_cache(maxsize=512)
def _complete(file: Path, _changed: int) -> bool:
    header, records = read_run(file)
    return len(records) == int(header["num"])


@lru_cache(maxsize=512)
def _read_run(file: Path, _changed: int) -> Run:
    return Run.read(file)
