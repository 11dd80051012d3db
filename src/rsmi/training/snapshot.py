"""A run in progress <-> a folder, so that it can go on after a crash: safetensors and JSON, no pickle.

FOLDER/run.json           what is being trained; a run of other settings does not go on here
FOLDER/update-000120/     weights, optimizer, trainer state after update 120, with digests; written whole or not at all
FOLDER/best-000100/       weights of the best epoch so far
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file, save_model
from torch import Tensor, nn

from rsmi.errors import CheckpointError

_RUN, _STATE = "run.json", "state.json"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a training run keeps itself."""

    path: Path
    temporary: bool = False
    """Gone after the run, so not worth telling a user about."""

    def claim(self, settings: Mapping[str, Any]) -> Path | None:
        """Make the folder belong to a run of these settings and return its newest snapshot, if it has any."""
        known, newest = self._settings(), self.newest()
        if known is None or newest is None:  # nothing done yet that other settings could spoil
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                for path in self.path.glob("best-*"):
                    shutil.rmtree(path)
                _write(self.path / _RUN, json.dumps(settings, indent=2, sort_keys=True).encode())
            except OSError as error:
                raise _cannot_write(self.path, error) from error
            return None
        wanted = json.loads(json.dumps(settings))  # as it looks after a round trip through JSON
        shown = "; ".join(_differences(known, wanted))
        if shown:
            raise CheckpointError(
                f"{self.path}: expected a run of the same settings to go on with, but {shown}; "
                "use the old settings, or remove the folder to start afresh"
            )
        for path in self.path.glob("best-*"):  # written by updates that will be done again
            if _update(path) > _update(newest):
                shutil.rmtree(path)
        return newest

    def clear(self) -> None:
        """Remove the run, once its result is saved elsewhere; what others wrote into the folder stays."""
        self._remove_all_but()
        (self.path / _RUN).unlink(missing_ok=True)
        if self.path.is_dir() and not any(self.path.iterdir()):
            self.path.rmdir()

    def newest(self) -> Path | None:
        """Return the newest complete snapshot."""
        return self._last("update-*")

    def best(self) -> Path | None:
        """Return the newest weights of a best epoch."""
        return self._last("best-*")

    def save_best(self, update: int, model: nn.Module) -> Path:
        """Write the weights after `update` as those of the best epoch; older ones go with the next snapshot."""

        def fill(fresh: Path) -> None:
            save_model(model, str(fresh / "model.safetensors"))

        return self._put(f"best-{update:08d}", fill, {})

    def save(
        self,
        update: int,
        models: Mapping[str, nn.Module],
        tensors: Mapping[str, Tensor],
        state: Any,
        writers: Mapping[str, Callable[[str], None]],
    ) -> Path:
        """Write a snapshot after `update`, then remove older ones and all but the newest best weights.

        Args:
            update: Updates done so far.
            models: Modules whose weights to keep, by name.
            tensors: Whatever else is made of tensors (the optimizer's state).
            state: Whatever else fits JSON.
            writers: Files that something else writes when told where, by name.
        """

        def fill(fresh: Path) -> None:
            for name, module in models.items():
                save_model(module, str(fresh / f"{name}.safetensors"))
            save_file({name: value.contiguous() for name, value in tensors.items()}, fresh / "tensors.safetensors")
            for name, write in writers.items():
                write(str(fresh / name))

        written = self._put(f"update-{update:08d}", fill, state)
        self._remove_all_but(written, self.best())
        return written

    def _last(self, pattern: str) -> Path | None:
        return max((path for path in self.path.glob(pattern) if path.is_dir()), default=None)

    def _remove_all_but(self, *kept: Path | None) -> None:
        for pattern in ("update-*", "best-*", ".fresh-*"):
            for path in self.path.glob(pattern):
                if path not in kept:
                    shutil.rmtree(path, ignore_errors=True)

    def _put(self, name: str, fill: Callable[[Path], None], state: Any) -> Path:
        """Write a folder under another name and give it its own once it is complete and on the disk."""
        target = self.path / name
        fresh = None
        try:
            fresh = Path(mkdtemp(prefix=".fresh-", dir=self.path))
            fill(fresh)
            digests = {path.name: _digest(path) for path in sorted(fresh.iterdir())}
            for path in fresh.iterdir():
                _sync(path)
            _write(fresh / _STATE, json.dumps({"digests": digests, "state": state}).encode())
            shutil.rmtree(target, ignore_errors=True)  # the same update, done again after a crash
            os.rename(fresh, target)
            _sync(self.path)
        except BaseException as error:
            if fresh is not None:
                shutil.rmtree(fresh, ignore_errors=True)
            if isinstance(error, (OSError, SafetensorError)):
                raise _cannot_write(self.path, error, self.newest()) from error
            raise
        return target

    def _settings(self) -> dict[str, Any] | None:
        path = self.path / _RUN
        if not path.is_file():
            if self.path.is_dir() and any(self.path.iterdir()):
                raise CheckpointError(f"{self.path}: expected a new or empty folder, or that of an interrupted run")
            return None
        try:
            settings: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise _damaged(self.path, path.name, error) from error
        return settings


def check(snapshot: Path) -> None:
    """Compare every file of a snapshot with its digest."""
    read_state(snapshot)
    name = _STATE
    try:
        digests = json.loads((snapshot / _STATE).read_text(encoding="utf-8"))["digests"]
        for name, digest in digests.items():
            if _digest(snapshot / name) != digest:
                raise ValueError("its content does not match its digest")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(snapshot, name, error) from error


def read_state(snapshot: Path) -> Any:
    """Return the JSON part of a snapshot."""
    try:
        return json.loads((snapshot / _STATE).read_text(encoding="utf-8"))["state"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(snapshot, _STATE, error) from error


def read_model(snapshot: Path, name: str, model: nn.Module) -> None:
    """Load the weights written under `name` into `model`."""
    try:
        load_model(model, str(snapshot / f"{name}.safetensors"))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise _damaged(snapshot, f"{name}.safetensors", error) from error


def read_tensors(snapshot: Path) -> dict[str, Tensor]:
    """Return the other tensors of a snapshot."""
    try:
        tensors: dict[str, Tensor] = load_file(snapshot / "tensors.safetensors")
    except (OSError, SafetensorError) as error:
        raise _damaged(snapshot, "tensors.safetensors", error) from error
    return tensors


def optimizer_parts(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split the state of an optimizer into its tensors and what fits JSON."""
    whole = optimizer.state_dict()
    tensors, values = dict[str, Tensor](), dict[str, dict[str, Any]]()
    for place, own in whole["state"].items():
        for name, value in own.items():
            if isinstance(value, Tensor):
                tensors[f"{place}.{name}"] = value
            else:
                values.setdefault(str(place), {})[name] = value
    return tensors, {"groups": whole["param_groups"], "values": values}


def restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], parts: Mapping[str, Any]
) -> None:
    """Undo `optimizer_parts`."""
    state: dict[int, dict[str, Any]] = {int(place): dict(own) for place, own in parts["values"].items()}
    for name, value in tensors.items():
        place, _, field = name.partition(".")
        state.setdefault(int(place), {})[field] = value
    groups = [
        # JSON knows no tuples, and AdamW's betas are one
        {name: tuple(value) if name == "betas" else value for name, value in group.items()}
        for group in parts["groups"]
    ]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _update(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _digest(path: Path) -> str:
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a small file so that it is either whole or not there."""
    fresh = path.with_name(f".{path.name}.fresh")
    fresh.write_bytes(content)
    _sync(fresh)
    os.replace(fresh, path)


def _sync(path: Path) -> None:
    """Wait until the disk has it: a rename may otherwise outlive what it renames."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _differences(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was set to something else, one setting at a time."""
    for name in sorted({*known, *wanted}):
        before, now = known.get(name), wanted.get(name)
        if isinstance(before, Mapping) and isinstance(now, Mapping):
            yield from _differences(before, now)
        elif before != now:
            yield f"{name} was {before!r}, is {now!r}"


def _cannot_write(folder: Path, error: Exception, kept: Path | None = None) -> CheckpointError:
    reason = getattr(error, "strerror", None) or error
    rest = f"; {kept.name} is kept: make room and resume from it" if kept else "; make room, or choose another folder"
    return CheckpointError(f"{folder}: cannot save the training run: {reason}{rest}")


def _damaged(folder: Path, name: str, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder / name}: cannot go on from here, the file is damaged or missing ({type(error).__name__}: {error}); "
        "remove the folder of the run to start afresh"
    )
