"""Intervals: they cover, they pair the inputs, and verdicts follow from them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import f as f_distribution

from rsmi.errors import DataError
from rsmi.evaluation.runs import Run
from rsmi.experiments.statistics import (
    Estimate,
    deviation,
    difference,
    gap,
    queries,
    resampled,
    success,
    variance_ratio,
)
from rsmi.experiments.verdicts import Part, judged
from rsmi.records import AttackRecord


def run_of(outcomes: str, name: str = "run", sample: str = "one") -> Run:
    """A run from letters: s skipped, f failed, x succeeded."""
    words: dict[str, Any] = {"s": "skipped", "f": "failed", "x": "succeeded"}
    records = tuple(
        AttackRecord(
            attack="a", original="t", adversarial="t", label=0, outcome=words[letter], label_before=0, label_after=0,
            gold_before=1.0, gold_after=1.0, queries=1, budget_hit=False, num_words=1, words_changed=0, fresh_draws=0,
            fresh_flips=0,
        )
        for letter in outcomes
    )  # fmt: skip
    return Run(name, {"data": {"fingerprint": sample, "name": "d"}, "attack": {"name": "a"}}, records)


def test_a_difference_is_that_of_the_shares_and_its_interval_holds_it() -> None:
    found = difference([run_of("f" * 60 + "x" * 40)], [run_of("x" * 60 + "f" * 40)])
    assert found.value == pytest.approx(20.0)
    assert found.low < 20.0 < found.high


def test_inputs_are_drawn_together() -> None:
    """Two runs that agree but on five inputs differ surely, however much the inputs vary."""
    one, other = run_of("f" * 55 + "x" * 45), run_of("f" * 50 + "x" * 50)
    found = difference([one], [other])
    assert found.value == pytest.approx(5.0)
    assert found.low > 0
    assert found.high < 11  # unpaired it would be about 19


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        one = run_of("".join(rng.choice(["f", "x"], p=[0.6, 0.4], size=100)))
        other = run_of("".join(rng.choice(["f", "x"], p=[0.5, 0.5], size=100)))
        found = difference([one], [other])
        covered += found.low <= 10 <= found.high
    assert covered >= 88  # of 100 at 95 %: fewer has a chance below 0.5 %


def test_success_counts_what_was_attacked_only() -> None:
    run = run_of("ssxf")
    assert success(run)(np.arange(4)) == 50.0
    assert math.isnan(success(run)(np.array([0, 1])))


def test_queries_are_those_of_attacked_inputs() -> None:
    run = run_of("sfx")
    records = tuple(replace(record, queries=asked) for record, asked in zip(run.records, (1, 10, 20), strict=True))
    mean = queries(replace(run, records=records))
    assert mean(np.arange(3)) == 15.0
    assert mean(np.array([0, 1, 1])) == 10.0
    assert math.isnan(mean(np.array([0])))


def test_other_inputs_are_refused() -> None:
    with pytest.raises(DataError, match="same inputs"):
        resampled([run_of("f"), run_of("f", sample="two")], lambda _places: 0.0)


def test_variances_follow_the_f_distribution() -> None:
    found = variance_ratio([1.0, 5.0, 9.0], [1.0, 2.0, 3.0])
    assert found.value == pytest.approx(16.0)
    assert found.low == pytest.approx(16 / f_distribution.ppf(0.975, 2, 2))
    assert found.high == pytest.approx(16 / f_distribution.ppf(0.025, 2, 2))


def test_a_gap_of_means_adds_their_errors() -> None:
    found = gap((1.0, 0.3), (0.0, 0.4))
    assert (found.low, found.high) == pytest.approx((1 - 1.95996 * 0.5, 1 + 1.95996 * 0.5), abs=1e-4)


def test_a_deviation_has_the_interval_of_chi_squares() -> None:
    rng = np.random.default_rng(0)
    draws = rng.normal(0.0, 2.0, (4000, 10)).std(axis=1, ddof=1)
    found = [deviation(float(draw), 10) for draw in draws]
    covered = np.mean([own.low <= 2.0 <= own.high for own in found])
    assert covered == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 4000))
    assert deviation(2.0, 10, 0.5).low > found[0].low / found[0].value * 2.0  # a lower level, a narrower interval


@pytest.mark.parametrize(
    ("estimates", "status"),
    [
        ([(2, 1, 3), (2, 0.1, 3)], "reproduced"),
        ([(2, 1, 3), (2, -0.1, 3)], "undecided"),
        ([(2, 1, 3), (-2, -3, -1)], "not reproduced"),
        ([(0, -1, 1)], "undecided"),
        ([], "undecided"),
    ],
)
def test_a_claim_holds_if_all_of_its_parts_do(estimates: list[tuple[float, float, float]], status: str) -> None:
    parts = [Part(f"part {i}", lambda _level, own=own: Estimate(*own)) for i, own in enumerate(estimates)]
    assert judged("claim", parts).status == status


def test_the_papers_own_figures_stand_beside_ours() -> None:
    parts = [Part("one", lambda _level: Estimate(1, 0.5, 2), 12.34), Part("two", lambda _level: Estimate(1, 0.5, 2))]
    assert judged("claim", parts).evidence == (
        "one: 1.0 [0.5, 2.0] points (paper: 12.3)",
        "two: 1.0 [0.5, 2.0] points",
    )


def test_a_claim_is_only_refuted_at_a_level_corrected_for_its_parts() -> None:
    levels: list[float] = []

    def part(level: float) -> Estimate:
        levels.append(level)
        return Estimate(-1, -2, -0.1 if level <= 0.95 else 0.1)  # below 0 at 95 %, not at the stricter level

    verdict = judged("claim", [Part("one", part), Part("two", lambda _level: Estimate(1, 0.5, 2))])
    assert verdict.status == "undecided"
    assert max(levels) == pytest.approx(0.975)
