"""Masked copies + noise -> logits and votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from rsmi.errors import UnsupportedModelError
from rsmi.memory import return_free_memory
from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.lanes import Lanes, each, open_lanes
from rsmi.method.masking import hide
from rsmi.method.noise import NoisePlan, NoiseSource, batch_noise, noisy_copies, row_noise, state_before_noise
from rsmi.method.tokens import Batch, Encoded, collate, distinct, side_by_side
from rsmi.seeds import derive

_LEAST_TOKENS = 256
_KEPT = 32  # times the tokens of a pass: how many states are kept at most


@dataclass(frozen=True, slots=True)
class Smoothed:
    """A classifier with its noise: what turns rows of tokens into random logits."""

    encoder: Encoder
    """What classifies the copies that vote, and what gradients are taken of; see `backends`."""
    plan: NoisePlan
    mask_token_id: int
    pad_token_id: int
    token_budget: int
    """Tokens of one forward pass, padding included; bounds the memory."""
    per_row: bool
    """Draw noise by each row's own key (the same whatever the batch) or for the batch at once (faster on a GPU)."""

    def least_copies(self, tokens: int) -> int:
        """Copies worth asking for at once of texts of so many tokens in all.

        Fewer would take as long: a CPU reads all weights, a GPU waits longer for the question than for the answer.
        """
        return -(-_LEAST_TOKENS // max(1, tokens)) if self.encoder.device.type == "cpu" else 32

    def batch(self, rows: Sequence[Encoded]) -> Batch:
        """Pad `rows` and move them to the model's device."""
        return collate(rows, self.pad_token_id).to(self.encoder.device)

    def lanes(self, encoder: Encoder, lengths: Sequence[int], token_budget: int) -> Lanes:
        """Return how groups of such rows run on an encoder: one by one unless it is on a CPU and may be shared."""
        apart = encoder.device.type == "cpu" and encoder.stages is not None and encoder.stages.shared
        return open_lanes(lengths, token_budget) if apart else Lanes(token_budget)

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


class Prefixes:
    """What comes before the first noise, by row: kept while more copies of it may be asked for.

    As much as fits is kept, for all rows together; the rest is computed again. Threads may share one.
    """

    def __init__(self, smoothed: Smoothed) -> None:
        self._smoothed = smoothed
        self._room = _KEPT * smoothed.token_budget
        self._known: dict[object, torch.Tensor] = {}

    def of(self, rows: Sequence[Encoded]) -> torch.Tensor:
        """Return the states of rows, padded: (rows, tokens, width)."""
        missing = [row for row in rows if row.identity not in self._known]
        states = self._computed(missing) if missing else torch.empty(0)
        if len(missing) == len(rows):
            return states
        found = self._known | {row.identity: state for row, state in zip(missing, states, strict=True)}
        return pad_sequence([found[row.identity] for row in rows], batch_first=True)

    def _computed(self, rows: Sequence[Encoded]) -> torch.Tensor:
        smoothed = self._smoothed
        states = state_before_noise(smoothed.encoder, smoothed.plan, smoothed.batch(rows))
        for row, state in zip(rows, states, strict=True):
            if len(row) <= self._room:
                self._room -= len(row)
                self._known[row.identity] = state[: len(row)].clone()
        return states


def collect_votes(smoothed: Smoothed, ballots: Sequence[Ballot], prefixes: Prefixes | None = None) -> list[Votes]:
    """Classify every copy of every ballot, copies of all texts batched together by length.

    Args:
        smoothed: The classifier.
        ballots: The copies.
        prefixes: Kept from one call to the next if the same rows will be asked about again.
    """
    rows, keys = [], []
    for ballot in ballots:
        copies = ballot.drawn or (ballot.row,) * len(ballot.keys)
        for row, mask, key in zip(copies, ballot.masks, ballot.keys, strict=True):
            rows.append(replace(row, ids=hide(row.ids, mask, smoothed.mask_token_id)))
            keys.append(key)
    logits = _classify(smoothed, rows, keys, prefixes)
    votes, start = [], 0
    for ballot in ballots:
        stop = start + len(ballot.keys)
        votes.append(Votes(logits[start:stop]))
        start = stop
    return votes


def _classify(
    smoothed: Smoothed, rows: Sequence[Encoded], keys: Sequence[int], prefixes: Prefixes | None
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Classify rows, those that are equal side by side: what they share is computed once, without noise all of it."""
    if not rows:
        return np.empty((0, 0))
    if smoothed.plan.silent:
        places, which = distinct(row.identity for row in rows)
        if len(places) < len(rows):
            return _classify(smoothed, [rows[i] for i in places], [keys[i] for i in places], None)[which]
    lanes = smoothed.lanes(smoothed.encoder, [len(row) for row in rows], smoothed.token_budget)
    groups = side_by_side(rows, lanes.token_budget)

    def classify(group: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            return _classify_group(smoothed, [rows[i] for i in group], [keys[i] for i in group], prefixes)

    with evaluating(smoothed.encoder.model):
        logits = torch.cat(each(classify, groups, lanes)).double().cpu().numpy()  # the only wait for a GPU
    if not np.isfinite(logits).all():  # argmax would quietly vote for the first class
        raise UnsupportedModelError(
            "expected finite logits, got some that are not finite; load the model with dtype='float32', "
            "lower noise_std, or train it again"
        )
    results = np.empty_like(logits)
    results[[i for group in groups for i in group]] = logits
    return results


def _classify_group(
    smoothed: Smoothed, rows: Sequence[Encoded], keys: Sequence[int], prefixes: Prefixes | None
) -> torch.Tensor:
    places, which = distinct(row.identity for row in rows)
    own = [rows[i] for i in places]
    source = smoothed.source(keys, [len(row) for row in rows])
    states = None if prefixes is None else prefixes.of(own)
    logits = noisy_copies(smoothed.encoder, smoothed.plan, smoothed.batch(own), which, source, states)
    return_free_memory()
    return logits
