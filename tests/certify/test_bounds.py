from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from rsmi.certify import anytime_lower_bound, interval, lower_bound, sampling, upper_bound
from rsmi.certify.bounds import votes_needed
from rsmi.certify.sampling import Tally, bounds_of, estimate
from rsmi.certify.settings import CertifyConfig
from rsmi.errors import ConfigError

ALPHA = 0.05


@pytest.mark.parametrize("trials", [1, 7, 40])
def test_clopper_pearson_covers_every_probability(trials):
    lower = np.array([lower_bound(k, trials, ALPHA) for k in range(trials + 1)])
    upper = np.array([upper_bound(k, trials, ALPHA) for k in range(trials + 1)])
    both = np.array([interval(k, trials, ALPHA) for k in range(trials + 1)])
    for p in np.linspace(0.001, 0.999, 199):
        mass = binom.pmf(np.arange(trials + 1), trials, p)
        assert mass[lower > p].sum() <= ALPHA
        assert mass[upper < p].sum() <= ALPHA
        assert mass[(both[:, 0] > p) | (both[:, 1] < p)].sum() <= ALPHA


def test_the_bound_is_not_looser_than_it_must_be():
    # at p = the bound itself, so many successes or more happen with just the failure probability
    p = lower_bound(33, 40, ALPHA)
    assert binom.sf(32, 40, p) == pytest.approx(ALPHA, rel=1e-9)
    assert lower_bound(0, 10, ALPHA) == 0.0
    assert lower_bound(50, 50, 0.001) == pytest.approx(0.001 ** (1 / 50), rel=1e-9)
    assert lower_bound(50, 50, 0.001) < 0.001 ** (1 / 50)  # rounded down, never up


def test_what_is_no_count_is_refused():
    with pytest.raises(ConfigError, match="5 of 4"):
        lower_bound(5, 4, 0.1)
    with pytest.raises(ConfigError, match="failure_prob"):
        lower_bound(1, 4, 0.0)


def ever_wrong(bound, p: float, draws: int = 150) -> float:
    """Exact chance that a bound looked at after every draw ever exceeds the truth: a walk over all counts."""
    alive, failed = np.array([1.0]), 0.0
    for n in range(1, draws + 1):
        grown = np.zeros(n + 1)
        grown[:-1] += alive * (1 - p)
        grown[1:] += alive * p
        wrong = np.array([bound(k, n, ALPHA) > p for k in range(n + 1)])
        failed += grown[wrong].sum()
        grown[wrong] = 0.0
        alive = grown
    return failed


@pytest.mark.parametrize("p", [0.5, 0.7, 0.9])
def test_the_anytime_bound_ever_fails_with_the_stated_chance_at_most(p):
    assert 0.0 < ever_wrong(anytime_lower_bound, p) <= ALPHA
    assert ever_wrong(lower_bound, p) > ALPHA  # a bound for a fixed number of draws fails more often when watched


@given(k=st.integers(0, 400), n=st.integers(1, 400), alpha=st.sampled_from([0.1, 0.001]))
def test_the_anytime_bound_is_below_the_fixed_one(k, n, alpha):
    k = min(k, n)
    assert 0 <= anytime_lower_bound(k, n, alpha) <= lower_bound(k, n, alpha)


@given(n=st.integers(1, 300), level=st.floats(0.01, 0.99), alpha=st.sampled_from([0.2, 0.001]))
def test_votes_needed_is_the_least_count(n, level, alpha):
    needed = votes_needed(n, alpha, level)
    assert needed == n + 1 or lower_bound(needed, n, alpha) > level
    assert needed == 0 or not lower_bound(needed - 1, n, alpha) > level


def told(sequence: tuple[int, ...]):
    def ask(asked):
        start = {cell: told_so_far[cell] for cell in asked}
        for cell, keys in asked.items():
            told_so_far[cell] += len(keys)
        return {cell: np.array(sequence[start[cell] : start[cell] + len(keys)]) for cell, keys in asked.items()}

    told_so_far = {(0, 0): 0}
    return ask


def test_stopping_early_never_changes_whether_the_radius_is_reached(monkeypatch):
    monkeypatch.setattr(sampling, "_ROUND", 1)
    n, alpha, saved = 11, 0.2, 0
    for level in (0.5, 0.6, 0.75):
        wanted = CertifyConfig(estimation_samples=n, failure_prob=alpha, radius=1.0)
        for sequence in itertools.product((0, 1), repeat=n):
            args = ({(0, 0): 1}, {0: 5}, {(0, 0): level}, {(0, 0): alpha})
            tally = estimate(told(sequence), *args, wanted, 2)[0, 0]
            whole = lower_bound(sum(sequence), n, alpha) > level
            assert (bounds_of(tally, alpha, wanted).p_lower > level) == whole
            saved += n - len(tally.keys)
    assert saved > 0


def test_without_a_radius_only_the_hopeless_stop(monkeypatch):
    monkeypatch.setattr(sampling, "_ROUND", 1)
    n, alpha = 10, 0.2
    settings = CertifyConfig(estimation_samples=n, failure_prob=alpha)
    for sequence in itertools.product((0, 1), repeat=n):
        tally = estimate(told(sequence), {(0, 0): 1}, {0: 5}, {(0, 0): 0.5}, {(0, 0): alpha}, settings, 2)[0, 0]
        whole = lower_bound(sum(sequence), n, alpha)
        found = bounds_of(tally, alpha, settings)
        assert found.certain == (whole > 0.5)
        if found.certain:
            assert found.p_lower == whole
            assert len(tally.keys) == n


def test_bonferroni_certifies_what_the_top_class_alone_cannot():
    choices = np.repeat(np.arange(4), (450, 190, 180, 180))
    tally = Tally(0, tuple(range(1000)), choices, 4)
    alone = bounds_of(tally, 1e-3, CertifyConfig())
    every = bounds_of(tally, 1e-3, CertifyConfig(bound="bonferroni"))
    assert not alone.certain
    assert every.certain
    assert every.p_lower == lower_bound(450, 1000, 1e-3 / 4)
    assert every.p_upper_other == upper_bound(190, 1000, 1e-3 / 4)


def test_the_refined_bound_pays_for_both_of_its_statements():
    tally = Tally(0, tuple(range(100)), np.zeros(100, dtype=int), 2)
    refined = CertifyConfig(kind="l0-mask", bound="refined", estimation_samples=100)
    assert bounds_of(tally, 1e-2, refined).p_lower == lower_bound(100, 100, 0.5e-2)


def test_the_ceiling_of_the_radius():
    from scipy.stats import norm

    for n, ceiling in ((50, 1.13), (1000, 2.46), (10_000, 3.20)):
        assert norm.ppf(lower_bound(n, n, 0.001)) == pytest.approx(ceiling, abs=0.005)
        assert math.isclose(lower_bound(n, n, 0.001), 0.001 ** (1 / n), rel_tol=1e-9)
