"""A trained classifier <-> a folder: an ordinary HF checkpoint, `rsmi_config.json` and a model card beside it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rsmi.config import RsmiConfig
from rsmi.errors import CheckpointError, ConfigError, DataError, LabelError, RsmiError
from rsmi.method.card import MARKER, model_card
from rsmi.method.encoder import Encoder
from rsmi.method.inputs import as_classes
from rsmi.method.pretrained import quiet
from rsmi.method.substitution import SynonymTable
from rsmi.records import Label

FILE_NAME = "rsmi_config.json"
SYNONYMS = "synonyms.json"
CARD = "README.md"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What `rsmi_config.json` holds."""

    config: RsmiConfig
    classes: tuple[Label, ...]
    training: dict[str, Any]
    """How it was trained: settings, seed, history. For the reader; loading does not depend on it."""
    synonyms: SynonymTable | None = None
    """What substitution draws from; in a file of its own."""


def is_checkpoint(source: str | Path) -> bool:
    """Whether `source` is a folder written by `save`."""
    return os.path.isfile(Path(source) / FILE_NAME)  # unlike Path.is_file, False for a name too long to exist


def check_target(folder: str | Path) -> Path:
    """Return `folder` if a checkpoint may be written there, making its parents."""
    target = Path(folder).resolve()
    try:
        if target.exists() and not (target.is_dir() and (is_checkpoint(target) or not any(target.iterdir()))):
            raise CheckpointError(
                f"{folder}: expected a new or empty folder, or an rsmi checkpoint to replace, got something else; "
                "choose another"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent)).rmdir()  # permissions alone do not tell
    except OSError as error:
        raise CheckpointError(
            f"{folder}: cannot write there: {error.strerror or error}; choose another folder"
        ) from error
    return target


def save(
    folder: str | Path, encoder: Encoder, tokenizer: PreTrainedTokenizerBase, settings: Settings, version: str
) -> None:
    """Write a checkpoint. An existing one is replaced only once the new one is complete."""
    target = check_target(folder)
    try:
        fresh = Path(mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot write there: {error.strerror or error}") from error
    try:
        with quiet():
            encoder.model.save_pretrained(fresh)
            tokenizer.save_pretrained(fresh)
        _write_card(target / CARD, fresh / CARD, encoder, settings, version)
        if settings.synonyms is not None:
            table = json.dumps(settings.synonyms.to_dict(), ensure_ascii=False)
            (fresh / SYNONYMS).write_text(table + "\n", encoding="utf-8")
        text = json.dumps(
            {
                "format": _FORMAT,
                "rsmi_version": version,
                "config": settings.config.to_dict(),
                "classes": list(settings.classes),
                "training": settings.training,
            },
            indent=2,
            ensure_ascii=False,
        )
        (fresh / FILE_NAME).write_text(text + "\n", encoding="utf-8")  # last: without it a folder is no checkpoint
        _sync(fresh)
        os.chmod(fresh, 0o755)  # mkdtemp makes folders private
        _swap(fresh, target)
    except BaseException as error:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(error, (OSError, SafetensorError)):
            reason = getattr(error, "strerror", None) or error
            raise CheckpointError(
                f"{folder}: cannot save the model: {reason}; make room, or choose another folder"
            ) from error
        raise


def read_settings(folder: str | Path) -> Settings:
    """Read and check `rsmi_config.json`."""
    path = Path(folder) / FILE_NAME
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if values["format"] != _FORMAT:
            raise CheckpointError(f"{path}: expected format {_FORMAT}, got {values['format']}; update rsmi")
        if not isinstance(values["classes"], list):
            raise CheckpointError(f"{path}: expected a list of classes, got {values['classes']!r}")
        config, classes = RsmiConfig.from_dict(values["config"]), as_classes(values["classes"])
        table = path.with_name(SYNONYMS)
        synonyms = SynonymTable.from_file(table) if table.is_file() else None
        return Settings(config=config, classes=classes, training=dict(values.get("training") or {}), synonyms=synonyms)
    except (ConfigError, DataError, LabelError) as error:
        raise CheckpointError(f"{path}: {error}") from error
    except RsmiError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: expected JSON with format, config and classes, got {type(error).__name__}: {error}; "
            "the file is damaged or was edited: save the model again"
        ) from error


def fingerprint(model: PreTrainedModel, classes: tuple[Label, ...]) -> str:
    """Hash weights and classes: equal fingerprints mean the same answers under the same settings."""
    digest = hashlib.blake2b(repr(classes).encode(), digest_size=16)
    for name, weights in sorted(model.state_dict().items()):
        flat = weights.detach().cpu().contiguous().flatten()
        digest.update(f"{name} {weights.dtype} {tuple(weights.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _write_card(old: Path, fresh: Path, encoder: Encoder, settings: Settings, version: str) -> None:
    """Write the model card, or take over the one that somebody wrote into the checkpoint that is replaced."""
    if old.is_file() and MARKER.encode() not in old.read_bytes():
        shutil.copyfile(old, fresh)
        return
    name = type(encoder.model).__name__
    text = model_card(name, settings.classes, settings.config, settings.training, version)
    fresh.write_text(text, encoding="utf-8")


def _sync(folder: Path) -> None:
    """Wait until the disk has every file of a folder: the rename that follows may otherwise outlive them."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _swap(fresh: Path, target: Path) -> None:
    """Put `fresh` in the place of `target`, which may exist.

    Two renames: a crash in the instant between them leaves the old checkpoint whole, beside the target in a folder
    `.NAME-old-*`.
    """
    if not target.exists():
        os.rename(fresh, target)
        return
    old = Path(mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
    try:
        os.rename(target, old / "was")
        try:
            os.rename(fresh, target)
        except BaseException:
            os.rename(old / "was", target)
            raise
    except BaseException:
        old.rmdir()  # only if empty: were the old checkpoint still in it, removing it would lose both
        raise
    shutil.rmtree(old, ignore_errors=True)
