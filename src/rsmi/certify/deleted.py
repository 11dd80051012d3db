"""Random deletion of words -> how many words may be inserted, deleted or replaced (CERT-ED, Huang et al. 2024)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from fractions import Fraction


def certified_edits(p_lower: float, p_upper_other: float, deletion_rate: float) -> int:
    """Return the most word edits that leave the top class ahead: p_lower - p_upper_other > 2 (1 - rate^r).

    With chance rate^r all edited words are left out, and the copies of both texts are then drawn alike.
    """
    lead, rate = Fraction(p_lower) - Fraction(p_upper_other), Fraction(deletion_rate)
    edits = 0
    while lead > 2 * (1 - rate ** (edits + 1)):
        edits += 1
    return edits


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Return the fewest insertions, deletions and replacements that turn one sequence into the other."""
    previous = list(range(len(second) + 1))
    for number, item in enumerate(first, 1):
        current = [number]
        for place, other in enumerate(second, 1):
            change = previous[place - 1] + (item != other)
            current.append(min(previous[place] + 1, current[-1] + 1, change))
        previous = current
    return previous[-1]
