"""Random deletion of words -> how many words may be inserted, deleted or replaced (CERT-ED, Huang et al. 2024)."""

from __future__ import annotations

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
