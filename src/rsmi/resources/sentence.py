"""Texts -> unit vectors whose angle says how much their meanings differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModel

from rsmi.data.embedded import encoder_folder
from rsmi.errors import CheckpointError, InputError
from rsmi.method.pretrained import EMBEDDED, as_device
from rsmi.method.tokens import Batch, by_length, collate, distinct, encode
from rsmi.resources.hub_models import Opened, open_model

Vectors: TypeAlias = NDArray[np.float32]
Metric: TypeAlias = Literal["cosine", "angular"]

# TextAttack's thresholds are those of the Universal Sentence Encoder: 0.840845057 (angular) for TextFooler, 0.936338023
# (cosine) for BAE. These let the same share of replacements through with MiniLM (89.7 % and 59.4 %, n = 3,555 and
# 3,514): benchmarks/sentence_threshold.py. It had the multilingual USE to compare with, not TextAttack's English one.
TEXTFOOLER_THRESHOLD: Final = 0.8254
"""Least angular similarity of 15-word windows in TextFooler, for the embedded encoder."""
BAE_THRESHOLD: Final = 0.941
"""Least cosine of 15-word windows in BAE, for the embedded encoder."""

_MAX_LENGTH: Final = 512
_SETTINGS: Final = "sentence_bert_config.json"
_HINT: Final = f"use {EMBEDDED!r}, or a hub id such as sentence-transformers/all-MiniLM-L6-v2"


class SentenceEncoder:
    """A transformer whose token vectors are averaged, as sentence-transformers does for MiniLM."""

    def __init__(self, opened: Opened, name: str, max_length: int) -> None:
        self.name = name
        """What it is, for reports."""
        self._opened = opened
        self._max_length = opened.max_length(max_length)

    @classmethod
    def open(cls, source: str | Path | None = None, device: str | torch.device | None = None) -> SentenceEncoder:
        """Load the embedded encoder, a folder or a hub id.

        Args:
            source: What to load; None or "minilm" for the embedded all-MiniLM-L6-v2.
            device: Where to put it; by default a GPU if there is one.

        Raises:
            MissingResourceError: If the embedded encoder is not installed.
            CheckpointError: If there is no complete model.
        """
        embedded = source is None or source == EMBEDDED
        location = encoder_folder() if embedded else source
        opened = open_model(AutoModel, str(location), as_device(device), _HINT)
        lost = [key for key in opened.missing if not key.startswith("pooler")]  # which is not read here
        if lost:
            raise CheckpointError(
                f"{source}: expected a pretrained encoder, {len(lost)} of its weights are missing (the first: "
                f"{lost[0]}); {_HINT}"
            )
        return cls(opened, "all-MiniLM-L6-v2" if embedded else str(source), _length_of(Path(str(location))))

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Encode texts: -> (texts, width), rows of length 1. Equal texts cost one pass."""
        if isinstance(texts, str):
            raise InputError("expected a sequence of texts, got one str; put it in a list")
        rows = encode(self._opened.tokenizer, list(texts), self._max_length)
        places, which = distinct(row.ids for row in rows)
        vectors = np.zeros((len(places), self.width), dtype=np.float32)
        pad = int(self._opened.tokenizer.pad_token_id)
        for group in by_length([len(rows[i]) for i in places], self._opened.encoder.token_budget):
            batch = collate([rows[places[i]] for i in group], pad).to(self._opened.encoder.device)
            vectors[group] = self._encode(batch).cpu().numpy()
        return vectors[which]

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        width: int = self._opened.encoder.model.config.hidden_size
        return width

    @torch.inference_mode()
    def _encode(self, batch: Batch) -> Tensor:
        """Average the tokens of each row, (batch, tokens) -> (batch, width), special tokens included."""
        encoder = self._opened.encoder
        inputs: dict[str, Any] = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
        if encoder.uses_segments and batch.token_type_ids is not None:
            inputs["token_type_ids"] = batch.token_type_ids
        hidden: Tensor = encoder.model(**inputs).last_hidden_state.float()
        weights = batch.attention_mask.unsqueeze(-1).to(hidden)
        return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)


def similarity(a: Vectors, b: Vectors, metric: Metric) -> Vectors:
    """Compare unit vectors row by row, either side may be one vector: cosine, or 1 - angle / pi."""
    cosines = np.clip((np.asarray(a) * np.asarray(b)).sum(-1), -1, 1)
    return np.asarray(cosines if metric == "cosine" else 1 - np.arccos(cosines) / np.pi, dtype=np.float32)


def _length_of(folder: Path) -> int:
    """Return how many tokens the model was trained to read, which sentence-transformers keeps in a file of its own."""
    path = folder / _SETTINGS
    if not path.is_file():
        return _MAX_LENGTH
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["max_seq_length"] or _MAX_LENGTH)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: expected JSON with max_seq_length, got {error}; repair or remove it") from error
