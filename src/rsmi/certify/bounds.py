"""Counts of votes -> bounds on probabilities that hold except with a stated chance."""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import betaln, xlog1py, xlogy
from scipy.stats import beta

from rsmi.errors import ConfigError

_ROUNDING = 1e-12  # bounds are moved outwards by this share: beta.ppf is not exact to the last bit


def lower_bound(successes: int, trials: int, failure_prob: float) -> float:
    """Return the one-sided Clopper-Pearson bound: the true probability is below it with chance `failure_prob` at most.

    Exact for every probability and every number of trials that was fixed beforehand.
    """
    _check(successes, trials, failure_prob)
    if successes == 0:
        return 0.0
    return float(beta.ppf(failure_prob, successes, trials - successes + 1)) * (1 - _ROUNDING)


def upper_bound(successes: int, trials: int, failure_prob: float) -> float:
    """Return the one-sided bound from above: that of the opposite event from below."""
    return 1.0 - lower_bound(trials - successes, trials, failure_prob)


def interval(successes: int, trials: int, failure_prob: float) -> tuple[float, float]:
    """Return the two-sided Clopper-Pearson interval; each end fails with half of `failure_prob`."""
    half = failure_prob / 2
    return lower_bound(successes, trials, half), upper_bound(successes, trials, half)


def anytime_lower_bound(successes: int, trials: int, failure_prob: float) -> float:
    """Return a bound that holds at all numbers of trials at once, so that one may stop whenever it is good enough.

    The likelihood ratio of an even mixture of all probabilities against p, B(k + 1, n - k + 1) / (p^k (1 - p)^(n - k)),
    is a martingale with mean 1 where p is true; by Ville's inequality it ever reaches 1 / failure_prob with chance
    failure_prob at most. The bound is the least p at which it has not.
    """
    _check(successes, trials, failure_prob)
    if successes == 0:
        return 0.0
    failures = trials - successes
    limit = -math.log(failure_prob)

    def evidence(p: float) -> float:
        ratio: float = betaln(successes + 1, failures + 1) - xlogy(successes, p) - xlog1py(failures, -p)
        return ratio - limit

    peak = successes / trials  # the evidence against p falls up to here
    if evidence(peak) >= 0:  # cannot be: at its own estimate the ratio is below 1
        raise ArithmeticError(f"expected evidence below its limit at {peak}")
    least = 1e-300
    if evidence(least) <= 0:
        return 0.0
    return float(brentq(evidence, least, peak, xtol=1e-15)) * (1 - 1e-9)


@lru_cache(maxsize=4096)
def votes_needed(trials: int, failure_prob: float, level: float) -> int:
    """Return the fewest votes with which `lower_bound` exceeds `level`; trials + 1 where no number of them does."""
    low, high = 0, trials + 1
    while low < high:
        middle = (low + high) // 2
        if lower_bound(middle, trials, failure_prob) > level:
            high = middle
        else:
            low = middle + 1
    return low


def _check(successes: int, trials: int, failure_prob: float) -> None:
    if not 0 <= successes <= trials or trials < 1:
        raise ConfigError(f"expected 0 to n successes of n >= 1 trials, got {successes} of {trials}")
    if not 0 < failure_prob < 1:
        raise ConfigError(f"failure_prob: expected a number between 0 and 1, got {failure_prob!r}")
