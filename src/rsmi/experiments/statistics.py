"""Runs on the same inputs -> differences with intervals, by resampling the inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.stats import chi2, norm
from scipy.stats import f as f_distribution

from rsmi.errors import DataError
from rsmi.evaluation.runs import Run
from rsmi.seeds import derive, generator

Array: TypeAlias = np.ndarray[Any, Any]
_RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1f} [{self.low:.1f}, {self.high:.1f}]"


def resampled(runs: Sequence[Run], statistic: Callable[[Array], float], level: float = 0.95) -> Estimate:
    """Return a statistic of runs on the same inputs with its bootstrap interval.

    Args:
        runs: All that the statistic looks at; their inputs must be the same, so that they are drawn together.
        statistic: Of the places of the inputs drawn.
        level: Of the interval.
    """
    if len({run.inputs for run in runs}) != 1:
        raise DataError("expected runs on the same inputs, got others: " + ", ".join(run.source for run in runs))
    size = len(runs[0].records)
    draws = torch.randint(size, (_RESAMPLES, size), generator=generator(derive("claims", size))).numpy()
    values = np.array([statistic(draw) for draw in draws])
    value, values = statistic(np.arange(size)), values[~np.isnan(values)]
    if not len(values):
        return Estimate(value, -math.inf, math.inf)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))


def robust(runs: Sequence[Run]) -> Array:
    """Return the share of some runs that each input survived, in per cent."""
    return np.asarray(100.0 * np.mean([run.survived for run in runs], axis=0))


def accurate(runs: Sequence[Run]) -> Array:
    """Return the share of some runs in which each input was answered right before the attack, in per cent."""
    right = [[record.outcome != "skipped" for record in run.records] for run in runs]
    return np.asarray(100.0 * np.mean(right, axis=0))


def success(run: Run) -> Callable[[Array], float]:
    """Return the attack success rate in per cent as a statistic; not a number where nothing was attacked."""
    attacked = np.array([record.outcome != "skipped" for record in run.records])
    fooled = np.array([record.outcome == "succeeded" for record in run.records])

    def rate(places: Array) -> float:
        total = attacked[places].sum()
        return float(100.0 * fooled[places].sum() / total) if total else math.nan

    return rate


def queries(run: Run) -> Callable[[Array], float]:
    """Return the mean number of queries of the attacked inputs as a statistic; not a number where none was attacked."""
    attacked = np.array([record.outcome != "skipped" for record in run.records])
    asked = np.array([record.queries for record in run.records]) * attacked

    def mean(places: Array) -> float:
        total = attacked[places].sum()
        return float(asked[places].sum() / total) if total else math.nan

    return mean


def difference(first: Sequence[Run], second: Sequence[Run], factor: float = 1.0, level: float = 0.95) -> Estimate:
    """Return mean RAcc of some runs less `factor` times that of others, in points."""
    own, other = robust(first), robust(second)
    return resampled((*first, *second), lambda places: float(own[places].mean() - factor * other[places].mean()), level)


def ahead(first: Sequence[Run], second: Sequence[Run], factor: float = 1.0) -> Callable[[float], Estimate]:
    """Return `difference` as a function of the level."""
    return lambda level: difference(first, second, factor, level)


def variance_ratio(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> Estimate:
    """Return the ratio of two variances with its F interval, for values that are normally distributed."""
    one, other = float(np.var(first, ddof=1)), float(np.var(second, ddof=1))
    if other == 0:
        return Estimate(math.inf if one else math.nan, 0.0, math.inf)
    ratio, freedom = one / other, (len(first) - 1, len(second) - 1)
    low, high = f_distribution.ppf([(1 - level) / 2, (1 + level) / 2], *freedom)
    return Estimate(ratio, ratio / float(high), ratio / float(low))


def deviation(value: float, count: int, level: float = 0.95) -> Estimate:
    """Return a standard deviation with its chi-square interval, for values that are normally distributed.

    Args:
        value: The standard deviation found.
        count: Of how many values.
        level: Of the interval.
    """
    freedom = count - 1
    low, high = chi2.ppf([(1 - level) / 2, (1 + level) / 2], freedom)
    return Estimate(value, value * math.sqrt(freedom / high), value * math.sqrt(freedom / low))


def gap(first: tuple[float, float], second: tuple[float, float], level: float = 0.95) -> Estimate:
    """Return the difference of two means, each given with its standard error."""
    value, error = first[0] - second[0], math.hypot(first[1], second[1])
    reach = float(norm.ppf((1 + level) / 2)) * error
    return Estimate(value, value - reach, value + reach)
