"""Random synonyms -> how many words may be replaced by synonyms (SAFER, Ye et al. 2020)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from rsmi.method.substitution import SynonymTable


def overlap(table: SynonymTable, word: str, other: str) -> Fraction:
    """Return how alike two words are drawn: the mass on what both may become, |A and B| / max(|A|, |B|).

    Of the words as they are written: where upper and lower case differ, so do the draws.
    """
    first, second = Counter(table.draws_of(word)), Counter(table.draws_of(other))
    shares = (min(Fraction(first[w], first.total()), Fraction(second[w], second.total())) for w in first & second)
    return sum(shares, start=Fraction(0))


def least_overlap(table: SynonymTable, word: str) -> Fraction:
    """Return the least overlap of a word with any of its synonyms; 1 where it has none."""
    return min((overlap(table, word, other) for other in table.draws_of(word)), default=Fraction(1))


def certified_substitutions(p_lower: float, p_upper_other: float, overlaps: Sequence[Fraction]) -> int:
    """Return the most words that may be replaced, each by any of its synonyms, with the top class still ahead.

    Drawn side by side, two texts that differ in some words come out the same with the product of these words' overlaps;
    so p_lower - p_upper_other > 2 (1 - product) is enough. The words with the least overlaps are the worst case.
    """
    lead = Fraction(p_lower) - Fraction(p_upper_other)
    ordered = sorted(overlaps)
    certified = 0
    for number in range(1, len(ordered) + 1):
        if lead <= 2 * (1 - math.prod(ordered[:number], start=Fraction(1))):
            break
        certified = number
    return certified
