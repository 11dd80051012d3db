from __future__ import annotations

import time

import pytest

from keywords import KeywordTarget, TableAttack
from rsmi.data import TextDataset
from rsmi.errors import InputError
from rsmi.evaluation.planning import plan_attack, plan_predictions


def some_data(lengths: list[int]) -> TextDataset:
    texts = tuple(" ".join([f"n{place}", *["good"] * (length - 1)]) for place, length in enumerate(lengths))
    return TextDataset(name="toy", split="test", texts=texts, labels=("pos",) * len(texts), source="a test")


class Sleeper:
    """Takes a time that is exactly proportional to the words it reads."""

    def __init__(self, per_word: float) -> None:
        self.per_word, self.read = per_word, 0

    def __call__(self, texts):
        words = sum(len(text.split()) for text in texts)
        self.read += words
        time.sleep(self.per_word * words)


def test_the_plan_scales_by_words_not_by_texts():
    data = some_data([2, 4, 6, 100, 200])
    plan = plan_predictions(Sleeper(0.005), data, 3)
    assert plan.inputs == 5
    assert plan.calibrated == 3
    assert plan.seconds == pytest.approx(0.005 * 312, rel=0.2)
    assert plan.low <= plan.seconds <= plan.high
    assert plan.queries is None
    assert plan.peak_mib > 10


def test_texts_that_take_longer_than_others_make_the_interval_wide():
    def classify(texts):
        time.sleep(sum(0.002 if int(text.split()[0][1:]) % 64 < 32 else 0.0005 for text in texts))

    data = some_data([4] * 640)
    plan = plan_predictions(classify, data, 192)
    assert plan.calibrated == 192
    assert plan.seconds == pytest.approx(640 * 0.00125, rel=0.25)
    assert plan.low < 0.85 * plan.seconds
    assert plan.high > 1.15 * plan.seconds


def test_of_a_run_that_was_run_whole_everything_is_known():
    data = some_data([2, 4, 6])
    plan = plan_predictions(Sleeper(0.005), data, 50)
    assert plan.calibrated == 3
    assert plan.seconds == plan.low == plan.high == pytest.approx(plan.calibration_seconds, abs=0.002)


def test_nothing_to_run_is_an_error():
    with pytest.raises(InputError, match="calibration of 1 or more"):
        plan_predictions(Sleeper(0.0), some_data([3]), 0)


def test_the_plan_of_an_attack_counts_queries_and_waits_for_the_target():
    class Slow(KeywordTarget):
        def query(self, texts, draw=0):
            time.sleep(0.002 * len(texts))
            return super().query(texts, draw)

    attack = TableAttack({"good": ["fine", "bad"]})
    data = some_data([4] * 20)
    whole = dict(attack.run(Slow({"good": 1.0}), data.texts, data.labels))
    plan = plan_attack(lambda places: attack.run(Slow({"good": 1.0}), data.texts, data.labels, only=places), data, 5)
    assert plan.calibrated == 5
    assert plan.queries == sum(record.queries for record in whole.values())
    assert plan.seconds >= 0.001 * plan.queries  # a text asked about again is counted but not computed again
    assert plan.seconds == pytest.approx(4 * plan.calibration_seconds, rel=0.01)
