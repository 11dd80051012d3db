"""The two-step rule and the sequential one: votes -> decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rsmi.config import Aggregation
from rsmi.method.stopping import SequentialTest, gate_passes
from rsmi.method.voting import Votes

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a vote, with classes as numbers."""

    winner: int | None
    """None where the sequential rule abstains."""
    probabilities: Array
    """(classes,): shares of the deciding votes, or softmax of the averaged logits."""
    first_votes: Array
    """(classes,)."""
    second_votes: Array | None
    """(classes,), or None where step two was not needed."""


def step_one_suffices(votes: Votes, planned: int, stop_confidence: float) -> bool:
    """Whether the first vote is clear enough; the gate counts votes whatever the aggregation.

    Of `planned` votes the last may be missing where they could not have changed this.
    """
    return gate_passes(int(votes.counts.max()), planned, stop_confidence)


def decide(first: Votes, second: Votes | None, aggregation: Aggregation) -> Decision:
    """Decide by the second vote where there was one, else by the first. A tie goes to the class named first."""
    last = first if second is None else second
    if aggregation == "vote":
        probabilities = last.counts / last.counts.sum()
    else:
        mean = last.logits.mean(0)
        shifted = np.exp(mean - mean.max())
        probabilities = shifted / shifted.sum()
    second_counts = None if second is None else second.counts
    return Decision(int(probabilities.argmax()), probabilities, first.counts, second_counts)


def decide_sequentially(test: SequentialTest) -> Decision:
    """Report a finished sequential test."""
    counts = np.array(test.counts, dtype=np.int64)
    return Decision(test.winner, counts / counts.sum(), counts, None)
