"""Masked copies + noise -> logits and votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from rsmi.errors import UnsupportedModelError
from rsmi.method.encoder import Encoder
from rsmi.method.masking import hide
from rsmi.method.memory import return_free_memory
from rsmi.method.noise import NoisePlan, NoiseSource, batch_noise, noisy_logits, row_noise
from rsmi.method.saliency import evaluating
from rsmi.method.tokens import Batch, Encoded, by_length, collate
from rsmi.seeds import derive


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A classifier with its noise: what turns rows of tokens into random logits."""

    encoder: Encoder
    plan: NoisePlan
    mask_token_id: int
    pad_token_id: int
    token_budget: int
    """Tokens of one forward pass, padding included; bounds the memory."""
    per_row: bool
    """Draw noise by each row's own key (the same whatever the batch) or for the batch at once (faster on a GPU)."""

    def batch(self, rows: Sequence[Encoded]) -> Batch:
        """Pad `rows` and move them to the model's device."""
        return collate(rows, self.pad_token_id).to(self.encoder.device)

    def source(self, keys: Sequence[int], lengths: Sequence[int]) -> NoiseSource:
        """Return the noise of rows with these keys."""
        return row_noise(keys, lengths) if self.per_row else batch_noise(derive(*keys), self.encoder.device)


@dataclass(frozen=True, slots=True)
class Ballot:
    """The copies of one text to be classified: one mask and one noise key each."""

    row: Encoded
    masks: tuple[tuple[int, ...], ...]
    keys: tuple[int, ...]
    drawn: tuple[Encoded, ...] = ()
    """Rows to mask instead of `row`, one a copy, where copies differ in their words too."""

    def part(self, which: slice) -> Ballot:
        """Return some of the copies."""
        return Ballot(self.row, self.masks[which], self.keys[which], self.drawn[which])


@dataclass(frozen=True, slots=True)
class Votes:
    """What the copies of one text said."""

    logits: np.ndarray[tuple[int, int], np.dtype[np.float64]]
    """(copies, classes)."""

    @property
    def ballots(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The class each copy chose, in the order drawn."""
        chosen: np.ndarray[tuple[int], np.dtype[np.int64]] = self.logits.argmax(1)
        return chosen

    @property
    def counts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Votes for each class."""
        return np.bincount(self.ballots, minlength=self.logits.shape[1])


def collect_votes(smoothed: Smoothed, ballots: Sequence[Ballot]) -> list[Votes]:
    """Classify every copy of every ballot, copies of all texts batched together by length."""
    rows, keys = [], []
    for ballot in ballots:
        copies = ballot.drawn or (ballot.row,) * len(ballot.keys)
        for row, mask, key in zip(copies, ballot.masks, ballot.keys, strict=True):
            rows.append(replace(row, ids=hide(row.ids, mask, smoothed.mask_token_id)))
            keys.append(key)
    logits = _classify(smoothed, rows, keys)
    votes, start = [], 0
    for ballot in ballots:
        stop = start + len(ballot.keys)
        votes.append(Votes(logits[start:stop]))
        start = stop
    return votes


def _classify(
    smoothed: Smoothed, rows: Sequence[Encoded], keys: Sequence[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    results: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = [np.empty(0)] * len(rows)
    with torch.inference_mode(), evaluating(smoothed.encoder.model):
        for group in by_length([len(row) for row in rows], smoothed.token_budget):
            batch = smoothed.batch([rows[i] for i in group])
            source = smoothed.source([keys[i] for i in group], batch.lengths)
            logits = noisy_logits(smoothed.encoder, smoothed.plan, batch, source).double().cpu().numpy()
            if not np.isfinite(logits).all():  # argmax would quietly vote for the first class
                raise UnsupportedModelError(
                    "expected finite logits, got some that are not finite; load the model with dtype='float32', "
                    "lower noise_std, or train it again"
                )
            for i, row in zip(group, logits, strict=True):
                results[i] = row
            return_free_memory()
    return np.stack(results) if results else np.empty((0, 0))
