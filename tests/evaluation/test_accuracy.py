from __future__ import annotations

import numpy as np
import pytest

from rsmi.errors import InputError, LabelError
from rsmi.evaluation.accuracy import count_correct, measure_accuracy, wilson_interval


class Oracle:
    """Answers by a table."""

    def __init__(self, answers, classes):
        self.answers, self.classes_ = answers, np.array(classes)

    def predict(self, texts):
        return np.array([self.answers[text] for text in texts], dtype=object)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(632, 1000, 60.2, 66.1), (63, 100, 53.2, 71.8), (31, 50, 48.2, 74.1)],
)
def test_intervals_match_hand_computed_ones(successes, trials, low, high):
    assert [round(100 * end, 1) for end in wilson_interval(successes, trials)] == [low, high]


def test_intervals_stay_within_0_and_1():
    assert wilson_interval(0, 5)[0] == 0.0
    assert wilson_interval(5, 5)[1] == 1.0
    assert 0 < wilson_interval(0, 5)[1] < 1


def test_an_abstention_is_counted_and_is_no_right_answer():
    accuracy = count_correct(np.array(["pos", None, "neg", None], dtype=object), ["pos", "pos", "pos", "neg"])
    assert (accuracy.correct, accuracy.total, accuracy.abstained) == (1, 4, 2)
    assert accuracy.value == 0.25
    assert accuracy.low < 0.25 < accuracy.high
    assert accuracy.to_dict()["value"] == 0.25


@pytest.mark.parametrize("labels", [["pos", "neg"], np.array(["pos", "neg"]), ("pos", "neg")])
def test_labels_may_come_as_lists_or_arrays(labels):
    accuracy = measure_accuracy(Oracle({"a": "pos", "b": "pos"}, ["neg", "pos"]), ["a", "b"], labels)
    assert (accuracy.correct, accuracy.total) == (1, 2)


def test_int_labels_may_come_from_numpy():
    accuracy = measure_accuracy(Oracle({"a": 1, "b": 0}, [0, 1]), ["a", "b"], np.array([1, 1]))
    assert accuracy.correct == 1


@pytest.mark.parametrize("labels", [["pos", "odd"], [0, 1], ["pos"], None, ["pos", None]])
def test_labels_that_are_no_classes_or_do_not_fit_are_refused(labels):
    with pytest.raises(LabelError):
        measure_accuracy(Oracle({"a": "pos", "b": "pos"}, ["neg", "pos"]), ["a", "b"], labels)


def test_string_labels_never_match_int_classes():
    with pytest.raises(LabelError, match="'1'"):
        measure_accuracy(Oracle({"a": 1}, [0, 1]), ["a"], ["1"])


def test_no_answers_or_too_few_are_refused():
    with pytest.raises(InputError):
        count_correct([], [])
    with pytest.raises(InputError):
        count_correct(["pos"], ["pos", "neg"])
