"""Random copies -> votes that pick a class, then independent votes that bound its probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rsmi.certify.bounds import anytime_lower_bound, lower_bound, upper_bound, votes_needed
from rsmi.certify.settings import CertifyConfig
from rsmi.seeds import derive

Array: TypeAlias = np.ndarray[Any, Any]
Cell: TypeAlias = tuple[int, int]
"""(place of a text, number of one of its classifiers): a text has one, or one for every mask under `all-masks`."""
Ask: TypeAlias = Callable[[Mapping[Cell, Sequence[int]]], Mapping[Cell, Array]]
"""Keys of copies wanted -> the class that each copy chose."""

_ROUND = 100  # copies of a text between two looks at whether to go on


@dataclass(frozen=True, slots=True)
class Tally:
    """The votes of one classifier on one text."""

    label: int
    """The class picked beforehand, by other draws."""
    keys: tuple[int, ...]
    """Of the copies that voted, in order."""
    choices: Array
    """What they chose."""
    num_classes: int

    @property
    def counts(self) -> Array:
        """Votes for each class."""
        return np.bincount(self.choices, minlength=self.num_classes)

    @property
    def votes(self) -> int:
        """Votes for the class picked."""
        return int((self.choices == self.label).sum())


@dataclass(frozen=True, slots=True)
class Bounds:
    """What votes prove about probabilities."""

    p_lower: float
    p_upper_other: float

    @property
    def certain(self) -> bool:
        """Whether the class is ahead of all others."""
        return self.p_lower > self.p_upper_other


def pick(ask: Ask, cells: Mapping[int, int], keys: Mapping[int, int], draws: int, num_classes: int) -> dict[int, int]:
    """Return the class that most of `draws` copies of each text choose, spread evenly over its classifiers.

    Args:
        ask: Draws copies.
        cells: Place of each text -> number of its classifiers.
        keys: Its key.
        draws: Copies of each text.
        num_classes: Of the model.
    """
    asked: dict[Cell, list[int]] = {}
    for place, strata in cells.items():
        for number in range(draws):
            asked.setdefault((place, number % strata), []).append(derive(keys[place], "selection", number))
    counts = {place: np.zeros(num_classes, dtype=np.int64) for place in cells}
    for (place, _), chosen in ask(asked).items():
        counts[place] += np.bincount(chosen, minlength=num_classes)
    return {place: int(own.argmax()) for place, own in counts.items()}


def estimate(
    ask: Ask,
    labels: Mapping[Cell, int],
    keys: Mapping[int, int],
    levels: Mapping[Cell, float],
    failure_probs: Mapping[Cell, float],
    settings: CertifyConfig,
    num_classes: int,
) -> dict[Cell, Tally]:
    """Draw copies of every cell until all are drawn or the rest cannot change what is asked.

    Args:
        ask: Draws copies.
        labels: The class picked for each cell.
        keys: Key of each text.
        levels: What the class's probability must exceed at the radius wanted; 1/2 where none is.
        failure_probs: Of each cell.
        settings: Of the certificate.
        num_classes: Of the model.
    """
    tallies = {cell: Tally(label, (), np.empty(0, dtype=np.int64), num_classes) for cell, label in labels.items()}
    while True:
        asked = {
            cell: _next_keys(tally, keys[cell[0]], cell[1], settings.estimation_samples)
            for cell, tally in tallies.items()
            if _undecided(tally, levels[cell], failure_probs[cell], settings)
        }
        if not asked:
            return tallies
        for cell, chosen in ask(asked).items():
            old = tallies[cell]
            both = np.concatenate([old.choices, chosen])
            tallies[cell] = Tally(old.label, (*old.keys, *asked[cell]), both, num_classes)


def _next_keys(tally: Tally, key: int, stratum: int, planned: int) -> list[int]:
    drawn = len(tally.keys)
    return [derive(key, "estimation", stratum, number) for number in range(drawn, min(planned, drawn + _ROUND))]


def _undecided(tally: Tally, level: float, failure_prob: float, settings: CertifyConfig) -> bool:
    planned, drawn = settings.estimation_samples, len(tally.keys)
    if drawn == planned:
        return False
    if settings.bound == "sequential":
        return drawn == 0 or not anytime_lower_bound(tally.votes, drawn, failure_prob) > level
    if settings.bound != "pa":
        return True
    needed = votes_needed(planned, failure_prob, level)
    reached = settings.radius is not None and tally.votes >= needed
    return not reached and tally.votes + planned - drawn >= needed


def bounds_of(tally: Tally, failure_prob: float, settings: CertifyConfig) -> Bounds:
    """Return what a tally proves.

    Copies that were not drawn because they could not matter are counted against the class, which a bound from below
    allows.
    """
    planned = settings.estimation_samples
    if settings.bound == "sequential":
        p_lower = anytime_lower_bound(tally.votes, len(tally.keys), failure_prob)
        return Bounds(p_lower, 1 - p_lower)
    if settings.bound == "bonferroni":
        own = failure_prob / tally.num_classes
        p_lower = lower_bound(tally.votes, planned, own)
        others = [upper_bound(int(n), planned, own) for i, n in enumerate(tally.counts) if i != tally.label]
        return Bounds(p_lower, min(max(others), 1 - p_lower))
    # the refined count is a second statement about the same draws: each gets half
    p_lower = lower_bound(tally.votes, planned, failure_prob / 2 if settings.bound == "refined" else failure_prob)
    return Bounds(p_lower, 1 - p_lower)
