"""Radii against classifiers whose exact radius is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from rsmi.certify import combined_std, effective_std, joint_radius, l2_radius, lower_bound, paper_radius
from rsmi.certify.masked import chance_seen
from rsmi.certify.sampling import bounds_of, estimate, pick
from rsmi.certify.settings import CertifyConfig
from rsmi.errors import ConfigError, NotCertifiable
from rsmi.seeds import derive

STD = 0.3


def linear(distance: float, std: float = STD):
    """Answers 1 where the noisy point is on the side of the plane that `distance` is on."""

    def ask(asked):
        found = {}
        for cell, keys in asked.items():
            noise = np.random.default_rng(derive(*keys)).normal(size=len(keys))
            found[cell] = (distance + std * noise > 0).astype(int)
        return found

    return ask


def certified(distance: float, settings: CertifyConfig, key: int) -> tuple[int, float]:
    ask = linear(distance)
    label = pick(ask, {0: 1}, {0: key}, settings.selection_samples, 2)[0]
    alpha = settings.failure_prob
    tally = estimate(ask, {(0, 0): label}, {0: key}, {(0, 0): 0.5}, {(0, 0): alpha}, settings, 2)[0, 0]
    found = bounds_of(tally, alpha, settings)
    return label, l2_radius(found.p_lower, found.p_upper_other, STD)


def test_the_radius_of_a_linear_classifier_is_exceeded_no_more_often_than_stated():
    settings = CertifyConfig(selection_samples=20, estimation_samples=200, failure_prob=0.05)
    for distance in (0.05, 0.3):
        results = [certified(distance, settings, key) for key in range(400)]
        wrong = sum(radius > 0 and (label == 0 or radius > distance) for label, radius in results)
        # 400 tries at 5 %: 35 or more would happen by chance once in a thousand
        assert wrong < 35
        assert any(radius > 0 for _, radius in results)


def test_the_radius_approaches_the_exact_one():
    distance = 0.4
    ratios = []
    for n in (100, 1000, 100_000):
        wins = round(n * norm.cdf(distance / STD))
        p = lower_bound(wins, n, 1e-3)
        ratios.append(l2_radius(p, 1 - p, STD) / distance)
    assert ratios == sorted(ratios)
    assert 0.97 < ratios[-1] < 1


@pytest.mark.parametrize(("std", "factor"), [(0.2, 25.0), (0.3, 11.1), (0.4, 6.25)])
def test_the_papers_formula_overstates_a_linear_classifier(std, factor):
    distance = 0.1
    p = norm.cdf(distance / std)
    assert l2_radius(p, 1 - p, std) == pytest.approx(distance)
    assert paper_radius([std], p, 1 - p) / distance == pytest.approx(factor, rel=0.01)


def test_the_papers_formula_fails_on_its_counterexample():
    std = 0.4
    both = math.sqrt(2) * std
    p = norm.cdf(0.1 / both)
    assert p == pytest.approx(0.5702, abs=1e-4)
    claimed = paper_radius([std, std], p, 1 - p)
    assert claimed == pytest.approx(0.5127, abs=1e-4)
    far = -0.4
    assert abs(far - 0.1) < claimed
    assert norm.cdf(far / both) == pytest.approx(0.2398, abs=1e-4)  # another class, inside the claim
    sound = l2_radius(p, 1 - p, std)
    assert sound <= 0.1
    assert norm.cdf((0.1 - sound) / both) >= 0.5


def test_units_do_not_matter_to_a_sound_radius():
    p = 0.9
    assert l2_radius(p, 1 - p, 2 * STD) == pytest.approx(2 * l2_radius(p, 1 - p, STD))
    assert paper_radius([0.6, 0.6], p, 1 - p) / paper_radius([0.3, 0.3], p, 1 - p) < 1


def test_later_noise_buys_no_radius():
    for later in (0.0, 0.3, 1.0):
        p = norm.cdf(0.2 / math.hypot(STD, later))
        radius = l2_radius(p, 1 - p, STD)
        assert radius <= 0.2 + 1e-12
        assert later == 0 or radius < 0.2


def test_nothing_is_certified_at_one_half():
    assert l2_radius(0.5, 0.5, STD) == 0.0
    assert l2_radius(0.4, 0.6, STD) == 0.0
    settings = CertifyConfig(selection_samples=20, estimation_samples=200, failure_prob=0.01)
    assert sum(certified(0.0, settings, key)[1] > 0 for key in range(200)) <= 7  # 2 expected


def test_two_noisy_copies_tell_more_than_one():
    x = 0.25
    p = norm.cdf(math.sqrt(2) * x / STD)  # answers by the sum of two noisy copies
    assert l2_radius(p, 1 - p, STD) > x  # each copy's own level is unsound
    assert combined_std(STD, STD) == pytest.approx(STD / math.sqrt(2))
    assert l2_radius(p, 1 - p, combined_std(STD, STD)) == pytest.approx(x)
    with pytest.raises(ConfigError):
        combined_std()


def test_the_repaired_theorem_is_exact_for_linear_layers():
    s1, s2, slope, x = 0.3, 0.5, 2.0, 0.2
    p = norm.cdf(slope * x / math.hypot(slope * s1, s2))
    level = effective_std([s1, s2], [slope])
    assert l2_radius(p, 1 - p, level) == pytest.approx(x)
    assert effective_std([s1, s2], [math.inf]) == pytest.approx(s1)  # attention: only the first noise is left
    with pytest.raises(ConfigError):
        effective_std([s1, s2], [])


class TwoTokens:
    """Two numbers; the larger one is hidden, the sign of the other answers."""

    def __init__(self, in_noise: bool) -> None:
        self.in_noise = in_noise

    def chance(self, x: np.ndarray, draws: int = 40_000, seed: int = 0) -> float:
        z = x + STD * np.random.default_rng(seed).normal(size=(draws, 2))
        hidden = np.abs(z).argmax(1) if self.in_noise else np.full(draws, np.abs(x).argmax())
        return float((z[np.arange(draws), 1 - hidden] > 0).mean())


def test_a_mask_from_the_clean_text_flips_inside_its_radius_and_one_from_the_noisy_text_does_not():
    x, y = np.array([1.0, -0.99]), np.array([0.99, -1.0])
    clean = TwoTokens(in_noise=False)
    p = 1 - clean.chance(x)
    assert np.linalg.norm(x - y) < l2_radius(p, 1 - p, STD)
    assert clean.chance(y) > 0.99  # the other class
    noisy = TwoTokens(in_noise=True)
    rng = np.random.default_rng(1)
    checked = 0
    for _ in range(60):
        point = rng.normal(size=2)
        chance = noisy.chance(point)
        top, n = chance > 0.5, 40_000
        p = lower_bound(round(n * max(chance, 1 - chance)), n, 1e-4)
        radius = l2_radius(p, 1 - p, STD)
        for _ in range(5):
            step = rng.normal(size=2)
            near = point + 0.99 * radius * step / np.linalg.norm(step)
            if radius > 0:
                checked += 1
                assert (noisy.chance(near, seed=2) > 0.49) if top else (noisy.chance(near, seed=2) < 0.51)
    assert checked > 100


def test_the_joint_bound_goes_over_into_its_parts():
    p = 0.97
    assert joint_radius(p, chance_seen(20, 2, 0), STD) == pytest.approx(l2_radius(p, 1 - p, STD))
    radii = [joint_radius(p, chance_seen(20, 2, d), STD) for d in range(8)]
    assert radii == sorted(radii, reverse=True)
    for d, radius in enumerate(radii):
        seen = float(chance_seen(20, 2, d))
        assert (radius > 0) == (p - seen > 0.5)
        if radius > 0:  # at the radius the class has just one half left
            left = (1 - seen) * norm.cdf(norm.ppf((p - seen) / (1 - seen)) - radius / STD)
            assert left == pytest.approx(0.5)


def test_theorem_1_and_clean_masks_are_refused():
    with pytest.raises(NotCertifiable, match="Theorem 1 of the paper is false"):
        CertifyConfig(kind="theorem-1")
    with pytest.raises(NotCertifiable, match="choose masking in-noise"):
        CertifyConfig(masking="gradient")
    for wrong in (
        {"kind": "l3"},
        {"failure_prob": 1.0},
        {"radius": -1.0},
        {"estimation_samples": 0},
        {"bound": "refined"},
        {"bound": "sequential"},
        {"kind": "edit", "masking": "all-masks"},
    ):
        with pytest.raises(ConfigError):
            CertifyConfig(**wrong)
    assert CertifyConfig.from_dict(CertifyConfig(radius=0.5).to_dict()) == CertifyConfig(radius=0.5)
