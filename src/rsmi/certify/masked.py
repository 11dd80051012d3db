"""Uniform word masks -> how many words may change in any way (RanMASK, Zeng et al. 2023; corrected)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from rsmi.certify.bounds import lower_bound

_MOST_SETS = 20_000  # sets of words looked at in the refined bound
_TOGETHER = 256  # of them at a time


def chance_seen(num_words: int, num_kept: int, changed: int) -> Fraction:
    """Return the chance that a mask keeps at least one of `changed` words: 1 - C(T - d, k) / C(T, k), exactly.

    Copies of two texts that differ in these words only are the same where none of them is kept, so the probability of
    any class differs by this much at most. The public code's factor beta = p on it is unsound: for T = 10, k = 3 it
    certifies a text whose class loses (tests/certify/test_masked.py).
    """
    return 1 - Fraction(comb(num_words - changed, num_kept), comb(num_words, num_kept))


def certified_words(p_lower: float, p_upper_other: float, num_words: int, num_kept: int) -> int:
    """Return the most words that may change with the top class still ahead: p_lower - D > p_upper_other + D."""
    lead = Fraction(p_lower) - Fraction(p_upper_other)
    certified = 0
    for changed in range(1, num_words + 1):
        if lead <= 2 * chance_seen(num_words, num_kept, changed):
            break
        certified = changed
    return certified


def certified_words_refined(kept: Sequence[frozenset[int]], num_draws: int, num_words: int, failure_prob: float) -> int:
    """Return the most words that may change, by counting the votes that did not see them.

    q(S) = P(class wins and no word of S is kept) does not depend on the words of S at all. So d words are certified if
    for every set S of d words the Clopper-Pearson bound of q(S), at failure_prob / C(T, d), exceeds 1/2. The draws are
    the same for all d; `failure_prob` is split over d = 1, 2, ... by halves, so that the largest may be chosen.

    Args:
        kept: For each vote for the class, which words its copy kept.
        num_draws: All votes.
        num_words: T.
        failure_prob: Chance of a wrong certificate.
    """
    hidden = np.ones((len(kept), num_words), dtype=bool)
    for row, own in zip(hidden, kept, strict=True):
        row[list(own)] = False
    certified, left = 0, failure_prob
    for changed in range(1, num_words + 1):
        sets = comb(num_words, changed)
        left /= 2
        if sets > _MOST_SETS:
            break
        if not lower_bound(_fewest_blind(hidden, changed), num_draws, left / sets) > 0.5:
            break
        certified = changed
    return certified


def _fewest_blind(hidden: np.ndarray[Any, np.dtype[np.bool_]], changed: int) -> int:
    """Return the fewest votes, over all sets of `changed` words, that saw none of a set; `hidden` is (votes, words)."""
    groups = combinations(range(hidden.shape[1]), changed)
    fewest = len(hidden)
    while part := list(islice(groups, _TOGETHER)):
        fewest = min(fewest, int(hidden[:, np.array(part)].all(2).sum(0).min()))
    return fewest
