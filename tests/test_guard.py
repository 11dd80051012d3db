"""Guards: the promised false-positive rate holds, long texts hide nothing, unclear ones go to a person."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from keyword_model import keyword_classifier, keyword_texts
from rsmi import RsmiClassifier
from rsmi.errors import CheckpointError, ConfigError, LabelError
from rsmi.guard import Guard, Threshold, choose_threshold


@pytest.mark.parametrize(("count", "rate", "confidence"), [(500, 0.02, 0.95), (1000, 0.05, 0.9), (299, 0.01, 0.95)])
def test_the_rate_is_kept_as_often_as_promised(count: int, rate: float, confidence: float) -> None:
    """Scores are even between 0 and 1, so that the true rate of a threshold t is 1 - t."""
    rng = np.random.default_rng(0)
    trials, kept = 2000, 0
    for _ in range(trials):
        scores = np.concatenate([rng.random(count), [1.0]])
        harmful = np.arange(count + 1) == count
        kept += 1 - choose_threshold(scores, harmful, rate, confidence).value <= rate
    assert kept >= binom.ppf(0.001, trials, confidence)


def test_the_threshold_is_no_stricter_than_it_must_be() -> None:
    rng = np.random.default_rng(1)
    scores, harmful = np.concatenate([rng.random(1000), [1.0]]), np.arange(1001) == 1000
    found = choose_threshold(scores, harmful, 0.05, 0.95)
    assert binom.cdf(found.false_positives, 1000, 0.05) <= 0.05 < binom.cdf(found.false_positives + 1, 1000, 0.05)


def test_ties_do_not_break_the_promise() -> None:
    scores = np.array([0.5] * 400 + [0.9])
    found = choose_threshold(scores, np.arange(401) == 400, 0.05, 0.95)
    assert found.false_positives == 0
    assert found.caught == 1


def test_too_few_texts_are_told_with_how_many_it_takes() -> None:
    scores, harmful = np.linspace(0, 1, 100), np.arange(100) == 99
    with pytest.raises(ConfigError, match=r"max_fpr=0\.01: expected at least 299 harmless texts .* got 99"):
        choose_threshold(scores, harmful, 0.01, 0.95)


@pytest.mark.parametrize(("rate", "confidence"), [(0.0, 0.95), (1.0, 0.95), (0.1, 0.0), (0.1, 1.0)])
def test_rates_are_between_0_and_1(rate: float, confidence: float) -> None:
    with pytest.raises(ConfigError, match="between 0 and 1"):
        choose_threshold(np.linspace(0, 1, 10), np.arange(10) == 9, rate, confidence)


BAD, GOOD = "bad poor dull the film", "good great warm the film"


def guarded(**settings: Any) -> tuple[RsmiClassifier, Guard]:
    classifier = keyword_classifier("no-mask", noise_std=0.1)
    given = {"max_fpr": 0.1, **settings}
    return classifier, classifier.calibrate(*keyword_texts(200, seed=5), "neg", **given)


def test_a_guard_blocks_what_it_should_and_passes_the_rest() -> None:
    _, guard = guarded()
    bad, good = guard.check([BAD, GOOD])
    assert (bad.action, bad.reason) == ("block", "score")
    assert (good.action, good.windows) == ("pass", 1)
    assert guard.block.recall > 0.8


def test_nothing_hides_behind_a_long_beginning() -> None:
    classifier, guard = guarded()
    limit = classifier.engine().max_tokens
    long = "good great " * limit + "bad poor dull hate " * 8
    assert classifier.explain([long])[0].truncated  # the classifier itself would not see the end
    (ruling,) = guard.check([long])
    assert ruling.windows > 1
    assert ruling.action == "block"


def test_a_text_on_the_allow_list_passes_unread_white_space_aside() -> None:
    _, guard = guarded(allow=["bad  poor dull the film"])
    first, second = guard.check([f" {BAD}\n", f"{BAD} ."])
    assert (first.action, first.reason, first.windows) == ("pass", "allow-list", 0)
    assert second.action == "block"


def test_a_band_below_the_threshold_goes_to_review() -> None:
    _, guard = guarded()
    middle = replace(guard.block, value=-1.0)
    stricter = replace(guard, block=replace(guard.block, value=2.0), review=middle)
    assert [ruling.action for ruling in stricter.check([BAD])] == ["review"]


def test_abstentions_go_to_review() -> None:
    classifier, guard = guarded()
    unsure = classifier.with_config(
        replace(classifier.config_, stop="sequential", aggregation="vote", first_votes=2, second_votes=2)
    )
    strict = replace(guard, classifier=unsure, block=replace(guard.block, value=2.0))
    (ruling,) = strict.check([GOOD])
    assert (ruling.action, ruling.reason) == ("review", "abstained")


def test_a_guard_survives_saving(tmp_path: Path) -> None:
    classifier, guard = guarded(max_review=0.2, allow=["hello there"])
    guard.save(tmp_path)
    again = Guard.load(tmp_path, classifier)
    assert again == guard
    (tmp_path / "rsmi_guard.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="expected the thresholds of a guard"):
        Guard.load(tmp_path, classifier)


def test_wrong_classes_are_named() -> None:
    classifier = keyword_classifier("no-mask", noise_std=0.1)
    with pytest.raises(LabelError, match="positive: expected one of the classes"):
        classifier.calibrate(["a", "b"], ["neg", "pos"], "spam")
    with pytest.raises(LabelError, match="only one of the two"):
        classifier.calibrate(["good"] * 100, ["pos"] * 100, "neg", max_fpr=0.1)


def test_a_review_rate_below_the_block_rate_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_review: expected at least max_fpr"):
        guarded(max_fpr=0.2, max_review=0.05)


def test_recall_without_texts_to_catch_is_no_number() -> None:
    empty = Threshold(value=0.5, max_rate=0.1, confidence=0.9, negatives=5, false_positives=0, positives=0, caught=0)
    assert np.isnan(empty.recall)
