"""The small file that turns the embedded encoder into a masked language model: a low-rank change and a head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel

from rsmi.data.embedded import encoder_folder
from rsmi.data.packages import sha256_of
from rsmi.errors import CheckpointError, MissingResourceError

HEAD_FILE: Final = "minilm_mlm_head.safetensors"
"""The weights: parameters of `BertForMaskedLM` under their own names, and two factors for each matrix that changed."""
RECORD_FILE: Final = "minilm_mlm_head.json"
"""How they were made and what they are worth."""
SHIPPED: Final = Path(__file__).parent
"""The folder of the head that comes with the library."""
DOWN, UP = ".low_rank.down", ".low_rank.up"
"""Endings of the factors' names: the matrix gains up @ down, of shapes (out, rank) and (rank, in)."""
BUILD: Final = "rsmi resources build mlm"
"""The command that makes a head."""


def is_head_folder(folder: Path) -> bool:
    """Whether `folder` holds such a file."""
    return (folder / HEAD_FILE).is_file()


def read_record(folder: Path = SHIPPED) -> dict[str, Any]:
    """Return how the head in `folder` was made, once the file is known to be the one described."""
    path = folder / HEAD_FILE
    if not path.is_file() or not (folder / RECORD_FILE).is_file():
        raise MissingResourceError(
            f"expected {HEAD_FILE} and {RECORD_FILE} in {folder}, got no such files; run: {BUILD}, "
            "or pass a hub id such as bert-base-uncased"
        )
    try:
        record = dict(json.loads((folder / RECORD_FILE).read_text(encoding="utf-8")))
        expected, encoder = str(record["sha256"]), str(record["encoder_sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{folder / RECORD_FILE}: expected JSON with sha256 and encoder_sha256, got a damaged file; run: {BUILD}"
        ) from error
    for file, wanted in ((path, expected), (encoder_folder() / "model.safetensors", encoder)):
        got = sha256_of(file)
        if got != wanted:
            raise CheckpointError(f"{file}: expected sha256 {wanted}, got {got}; run: {BUILD}")
    return record


def read_head(folder: Path = SHIPPED) -> dict[str, Tensor]:
    """Return the tensors of a head, checked against its record."""
    read_record(folder)
    try:
        return dict(load_file(folder / HEAD_FILE))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{folder / HEAD_FILE}: cannot be read: {error}; run: {BUILD}") from error


@torch.no_grad()
def apply_head(model: PreTrainedModel, tensors: Mapping[str, Tensor]) -> None:
    """Put a head into a `BertForMaskedLM` of the embedded encoder, which is then an ordinary model."""
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        if name.endswith(UP):
            continue
        target = name.removesuffix(DOWN)
        change = tensor if target == name else tensors[target + UP].float() @ tensor.float()
        if target not in parameters or parameters[target].shape != change.shape:
            raise CheckpointError(f"{HEAD_FILE}: expected parameters of {type(model).__name__}, got {name!r}")
        parameter = parameters[target]
        parameter.copy_(change.to(parameter) if target == name else parameter + change.to(parameter))
