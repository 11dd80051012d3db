"""Masked copies + noise -> logits and votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from rsmi.errors import UnsupportedModelError
from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.masking import hide
from rsmi.method.memory import return_free_memory
from rsmi.method.noise import NoisePlan, NoiseSource, batch_noise, noisy_copies, row_noise
from rsmi.method.tokens import Batch, Encoded, collate, distinct, side_by_side
from rsmi.seeds import derive


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A classifier with its noise: what turns rows of tokens into random logits."""

    encoder: Encoder
    """What gradients are taken of."""
    voter: Encoder
    """What classifies the copies that vote: the same, or a faster version of it without gradients."""
    plan: NoisePlan
    mask_token_id: int
    pad_token_id: int
    token_budget: int
    """Tokens of one forward pass, padding included; bounds the memory."""
    per_row: bool
    """Draw noise by each row's own key (the same whatever the batch) or for the batch at once (faster on a GPU)."""

    @property
    def least_copies(self) -> int:
        """Copies of a text worth asking for at once: a GPU waits longer for the question than for the answer."""
        return 1 if self.encoder.device.type == "cpu" else 32

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

    def first(self, count: int) -> Votes:
        """Return those drawn first."""
        return Votes(self.logits[:count])

    def followed_by(self, later: Votes) -> Votes:
        """Return these votes and those drawn after them."""
        return Votes(np.concatenate([self.logits, later.logits]))


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
    """Classify rows, those that are equal side by side: what they share is computed once, without noise all of it."""
    if not rows:
        return np.empty((0, 0))
    if smoothed.plan.silent:
        places, which = distinct(row.identity for row in rows)
        if len(places) < len(rows):
            return _classify(smoothed, [rows[i] for i in places], [keys[i] for i in places])[which]
    groups = side_by_side(rows, smoothed.token_budget)
    with torch.inference_mode(), evaluating(smoothed.voter.model):
        answers = [_classify_group(smoothed, [rows[i] for i in group], [keys[i] for i in group]) for group in groups]
        logits = torch.cat(answers).double().cpu().numpy()  # the only wait for a GPU
    if not np.isfinite(logits).all():  # argmax would quietly vote for the first class
        raise UnsupportedModelError(
            "expected finite logits, got some that are not finite; load the model with dtype='float32', "
            "lower noise_std, or train it again"
        )
    results = np.empty_like(logits)
    results[[i for group in groups for i in group]] = logits
    return results


def _classify_group(smoothed: Smoothed, rows: Sequence[Encoded], keys: Sequence[int]) -> torch.Tensor:
    places, which = distinct(row.identity for row in rows)
    batch = smoothed.batch([rows[i] for i in places])
    source = smoothed.source(keys, [len(row) for row in rows])
    logits = noisy_copies(smoothed.voter, smoothed.plan, batch, which, source)
    return_free_memory()
    return logits
