"""Thresholds: what is compared, and what passes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rsmi.errors import ConfigError
from rsmi.evaluation.accuracy import wilson_interval
from rsmi.evaluation.gating import Thresholds
from rsmi.evaluation.robustness import Robustness
from toy import FAILED

SUCCEEDED = replace(FAILED, outcome="succeeded", label_after="neg")
SKIPPED = replace(FAILED, outcome="skipped", label_before="neg")
RESULT = Robustness.of([FAILED] * 4 + [SUCCEEDED] * 4 + [SKIPPED] * 2)
"""Accuracy 0.8, under attack 0.4, success 0.5 of 8."""


def verdicts(**limits):
    return {check.threshold: check.passed for check in Thresholds(**limits).judge(RESULT)}


def test_a_number_that_just_reaches_its_threshold_passes():
    assert verdicts(min_robust_accuracy=0.4, min_accuracy=0.8, max_success_rate=0.5) == {
        "min_robust_accuracy": True,
        "min_accuracy": True,
        "max_success_rate": True,
    }
    assert verdicts(min_robust_accuracy=0.401, min_accuracy=0.801, max_success_rate=0.499) == {
        "min_robust_accuracy": False,
        "min_accuracy": False,
        "max_success_rate": False,
    }


def test_only_what_was_asked_for_is_judged():
    assert list(verdicts(max_success_rate=0.6)) == ["max_success_rate"]


def test_sure_compares_the_cautious_end_of_the_interval():
    low, _ = wilson_interval(4, 10)
    _, high = wilson_interval(4, 8)
    assert low < 0.4
    assert high > 0.5
    assert verdicts(min_robust_accuracy=low, max_success_rate=high, sure=True) == {
        "min_robust_accuracy": True,
        "max_success_rate": True,
    }
    assert verdicts(min_robust_accuracy=low + 1e-9, max_success_rate=high - 1e-9, sure=True) == {
        "min_robust_accuracy": False,
        "max_success_rate": False,
    }


def test_a_rate_of_nothing_never_passes():
    nothing = Robustness.of([SKIPPED])
    for sure in (False, True):
        (check,) = Thresholds(max_success_rate=0.9, sure=sure).judge(nothing)
        assert not check.passed
    assert math.isnan(Thresholds(max_success_rate=0.9).judge(nothing)[0].compared)
    assert Thresholds(max_success_rate=0.9).judge(nothing)[0].to_dict()["compared"] is None


def test_a_check_tells_everything_in_plain_values():
    (check,) = Thresholds(min_accuracy=0.5).judge(RESULT)
    low, high = wilson_interval(8, 10)
    assert check.to_dict() == {
        "threshold": "min_accuracy",
        "limit": 0.5,
        "compared": 0.8,
        "passed": True,
        "count": 8,
        "total": 10,
        "value": 0.8,
        "low": low,
        "high": high,
    }


def test_thresholds_are_shares_and_there_is_at_least_one():
    with pytest.raises(ConfigError, match="expected at least one of min_robust_accuracy"):
        Thresholds(sure=True)
    for wrong in (-0.1, 40.0, math.nan):
        with pytest.raises(ConfigError, match="min_accuracy: expected a share from 0 to 1"):
            Thresholds(min_accuracy=wrong)
