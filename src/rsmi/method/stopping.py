"""When votes suffice: the paper's binomial gate, and an exact sequential test that may abstain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from scipy.stats import binom

VotesWanted: TypeAlias = Callable[[Sequence[int]], int]
"""Votes for each class so far -> the fewest further ones after which the rest may not matter any more; 0: none."""

_ROUNDING = 1e-12  # probabilities below are sums of at most a few hundred terms


@lru_cache(maxsize=4096)
def gate_passes(top_votes: int, votes: int, stop_confidence: float) -> bool:
    """Whether P[Bin(votes, 1/2) <= top_votes] reaches `stop_confidence`, as the authors' code computes it.

    With 5 votes and 0.98 only 5 of 5 pass (4 of 5 gives 0.969). It saves work; it does not bound the error.
    """
    return bool(binom.cdf(top_votes, votes, 0.5) >= stop_confidence)


def until_won(counts: Sequence[int], votes: int) -> int:
    """Return the fewest further votes, of `votes` in all, that could settle which class gets most of them.

    A tie goes to the class named first, so an earlier class has won once a later one can only draw level.
    """
    left = votes - sum(counts)

    def needed(winner: int, other: int) -> int:
        behind = counts[other] + left - counts[winner]  # if all the rest went to the other one
        return max(0, (behind + 1) // 2 if winner < other else behind // 2 + 1)

    classes = range(len(counts))
    return min(left, *(max((needed(own, other) for other in classes if other != own), default=0) for own in classes))


def until_gate(counts: Sequence[int], votes: int, stop_confidence: float, winner_only: bool) -> int:
    """Return the fewest further votes, of `votes` in all, that could settle what step one does.

    It is settled that it fails once even the class ahead cannot pass the gate any more. That it decides is settled by
    the last vote or, where of all it says the winner alone is wanted, once that one is beyond reach.
    """
    lead, drawn = max(counts), sum(counts)
    passing = next((top for top in range(votes + 1) if gate_passes(top, votes, stop_confidence)), votes + 1)
    # the further votes that hurt the class ahead most are spread over the others
    failing = (
        more
        for more in range(votes - drawn)
        if max(lead, -(-(drawn + more) // len(counts))) + votes - drawn - more < passing
    )
    to_pass = max(until_won(counts, votes), passing - lead) if winner_only else votes - drawn
    return min(next(failing, votes - drawn), to_pass, votes - drawn)


@lru_cache(maxsize=64)
def boundaries(error: float, cap: int) -> tuple[int, ...]:
    """Votes one of two classes needs after 1, 2, ..., `cap` votes to be declared the winner.

    Exact: with equal classes, the chance that a given one is ever declared is at most `error`, spent linearly, so at
    most error * n / cap by vote n. A bound above n means that n votes cannot decide.
    """
    alive = np.zeros(cap + 2)  # P(k votes so far, never declared), both classes at 1/2
    alive[0] = 1.0
    spent = 0.0
    needed = []
    for n in range(1, cap + 1):
        alive[1:] = (alive[1:] + alive[:-1]) / 2
        alive[0] /= 2
        allowed = error * n / cap - spent + _ROUNDING * error
        bound, tail = n + 1, 0.0
        while 2 * (bound - 1) > n and tail + alive[bound - 1] <= allowed:
            bound -= 1
            tail += float(alive[bound])
        spent += tail
        alive[bound:] = 0.0
        needed.append(bound)
    return tuple(needed)


class SequentialTest:
    """Takes votes one by one and says when a class has won, or that none can any more.

    A class wins once it has beaten every other one; a pair is compared on the votes for either of the two, at
    error / (classes - 1), and a comparison once won stays won. The chance that a class other than the most probable one
    wins is at most `error`: it would have to beat the most probable one first.
    """

    def __init__(self, num_classes: int, error: float, cap: int) -> None:
        self._pair_error = error / (num_classes - 1)
        self._cap = cap
        self._num_classes = num_classes
        self._beaten: set[tuple[int, int]] = set()
        self.counts = [0] * num_classes
        self.winner: int | None = None
        self.done = False

    def count(self, votes: Iterable[int]) -> None:
        """Count votes in order until the test is done; later ones are not looked at."""
        for vote in votes:
            if self.done:
                return
            self.add(int(vote))

    def add(self, vote: int) -> None:
        """Count one vote."""
        if self.done:
            raise RuntimeError("expected no vote after the test is done")
        self.counts[vote] += 1
        needed = boundaries(self._pair_error, self._cap)
        for other in range(self._num_classes):
            pair_votes = self.counts[vote] + self.counts[other]
            if other != vote and self.counts[vote] >= needed[pair_votes - 1]:
                self._beaten.add((vote, other))
        if all((vote, other) in self._beaten for other in range(self._num_classes) if other != vote):
            self.winner = vote
        self.done = self.winner is not None or not any(self._can_win(i) for i in range(self._num_classes))

    def _can_win(self, candidate: int) -> bool:
        """Whether votes for `candidate` alone, up to the cap, would make it win."""
        left = self._cap - sum(self.counts)
        needed = boundaries(self._pair_error, self._cap)
        for other in range(self._num_classes):
            if other == candidate or (candidate, other) in self._beaten:
                continue
            own, pair = self.counts[candidate], self.counts[candidate] + self.counts[other]
            if not any(own + extra >= needed[pair + extra - 1] for extra in range(1, left + 1)):
                return False
        return left > 0

    @classmethod
    def first_chance(cls, num_classes: int, error: float, cap: int) -> int:
        """Fewest votes after which a class can have won; the cap where none can."""
        needed = boundaries(error / (num_classes - 1), cap)
        return next((n for n, bound in enumerate(needed, start=1) if bound <= n), cap)
