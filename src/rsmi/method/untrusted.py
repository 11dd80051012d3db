"""The small files of a model that others made -> refused if they would run code or read files beside it.

transformers guards some of this, in some versions. These checks come first, and say what is wrong in one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from transformers.utils import cached_file

from rsmi.errors import CheckpointError

_CONFIGS: Final = ("config.json", "tokenizer_config.json")
_INDEX: Final = "model.safetensors.index.json"
_ADAPTER: Final = "adapter_config.json"
_SAFE: Final = ("model.safetensors", _INDEX)
_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_CODE_NAMES: Final = ("attn_implementation", "experts_implementation")  # "owner/name": kernels fetched from the hub
_STALE: Final = ("special_tokens_map_file",)  # old checkpoints name their maker's disk there; nothing reads it


def refuse_untrusted(source: str, location: str) -> None:
    """Look at the files of a model before anything is loaded from them.

    Args:
        source: What the user calls the model.
        location: Its folder or hub id.

    Raises:
        CheckpointError: If it brings code or pickled weights, or names files outside its own folder.
    """
    for name in _CONFIGS:
        values = _read(source, location, name)
        _refuse_code(source, name, values)
        _refuse_paths(source, name, values)
    _check_index(source, _read(source, location, _INDEX))
    if _path(location, _ADAPTER) is not None:
        raise CheckpointError(
            f"{source}: expected a whole model, got an adapter ({_ADAPTER}), which would load another one; merge it "
            "into its base model (merge_and_unload of peft) and save that"
        )
    _check_weights(source, Path(location))


def _refuse_code(source: str, name: str, values: dict[str, Any]) -> None:
    for key, value in _entries(values):
        if key == "auto_map" and value:
            raise CheckpointError(
                f"{source}: expected a model that transformers knows, got one with Python code of its own ({name}, "
                f"auto_map: {_short(value)}), which rsmi never runs; use another checkpoint"
            )
        if key.lstrip("_") in _CODE_NAMES and "/" in str(value):
            raise CheckpointError(
                f"{source}: expected no code from a hub, got {key}: {_short(value)} in {name}; remove that line"
            )


def _refuse_paths(source: str, name: str, values: dict[str, Any]) -> None:
    for key, value in _entries(values):
        names_files = key == "transformers_weights" or key.endswith(("_file", "_files"))
        if not names_files or key in _STALE:
            continue
        for file in value if isinstance(value, list) else [value]:
            if isinstance(file, str) and not _is_own(file):
                raise CheckpointError(
                    f"{source}: expected names of files in its own folder, got {key}: {_short(file)} in {name}; remove "
                    "that line"
                )
        if key == "transformers_weights" and not str(value).endswith((".safetensors", ".safetensors.index.json")):
            raise CheckpointError(f"{source}: expected safetensors weights, got {key}: {_short(value)} in {name}")


def _check_index(source: str, index: dict[str, Any]) -> None:
    shards = index.get("weight_map", {})
    if not isinstance(shards, dict):
        raise CheckpointError(f"{source}: expected weight_map to be an object in {_INDEX}, got {_short(shards)}")
    for file in dict.fromkeys(map(str, shards.values())):
        if not _is_own(file) or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{source}: expected safetensors files in its own folder, got {_short(file)} in {_INDEX}; save the "
                "model again from a source you trust"
            )


def _check_weights(source: str, folder: Path) -> None:
    """Say plainly that a folder with pickled weights alone is refused."""
    if not folder.is_dir() or any((folder / name).is_file() for name in _SAFE):
        return
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickled:
        raise CheckpointError(
            f"{source}: expected safetensors weights, got {pickled[0]}, a pickle, which may run any code when it is "
            "read; if you trust it, load it with transformers and save_pretrained it again"
        )


def _is_own(name: str) -> bool:
    """Whether a name is that of a file in the folder itself, on any system."""
    return name not in ("", ".", "..") and not any(mark in name for mark in ("/", "\\", ":", "\0"))


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key of a JSON value with what it holds, at any depth."""
    waiting = [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, dict):
            yield from held.items()
        waiting += held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()


def _read(source: str, location: str, name: str) -> dict[str, Any]:
    path = _path(location, name)
    if path is None:
        return {}
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{source}: expected JSON in {name}, got {type(error).__name__}: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{source}: expected a JSON object in {name}, got {type(values).__name__}")
    return values


def _path(location: str, name: str) -> Path | None:
    """Return a file of a model folder, or of a model on the hub, or None if it has none."""
    if Path(location).is_dir():
        path = Path(location) / name
        return path if path.is_file() else None
    found = cached_file(
        location,
        name,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)


def _short(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else shown[:79] + "…"
