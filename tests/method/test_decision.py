from __future__ import annotations

import numpy as np
import pytest

from rsmi.method.decision import decide, decide_sequentially, step_one_suffices
from rsmi.method.stopping import SequentialTest
from rsmi.method.voting import Votes

ONE_BIG = Votes(np.array([[5.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 0.5]]))
"""Two small votes for class 1; one large logit for class 0."""


def ballots(*classes: int, of: int = 3) -> Votes:
    return Votes(np.eye(of)[list(classes)])


def test_votes_count_each_copys_best_class_in_order():
    assert ONE_BIG.ballots.tolist() == [0, 1, 1]
    assert ONE_BIG.counts.tolist() == [1, 2, 0]


def test_voting_takes_the_majority():
    decision = decide(ONE_BIG, None, "vote")
    assert decision.winner == 1
    assert decision.probabilities == pytest.approx([1 / 3, 2 / 3, 0.0])
    assert decision.first_votes.tolist() == [1, 2, 0]
    assert decision.second_votes is None


def test_averaging_takes_the_softmax_of_the_mean_logits():
    decision = decide(ONE_BIG, None, "logit-average")
    mean = np.array([5 / 3, 2 / 3, 1 / 6])
    assert decision.winner == 0
    assert decision.probabilities == pytest.approx(np.exp(mean) / np.exp(mean).sum())
    assert decision.first_votes.tolist() == [1, 2, 0]


def test_averaging_survives_huge_logits():
    decision = decide(Votes(np.array([[1e4, -1e4]])), None, "logit-average")
    assert decision.probabilities.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("aggregation", ["vote", "logit-average"])
def test_the_second_vote_decides_alone(aggregation):
    decision = decide(ballots(0, 0, 0, 0, 1), ballots(2, 2, 1), aggregation)
    assert decision.winner == 2
    assert decision.first_votes.tolist() == [4, 1, 0]
    assert decision.second_votes.tolist() == [0, 1, 2]
    if aggregation == "vote":
        assert decision.probabilities == pytest.approx([0, 1 / 3, 2 / 3])


@pytest.mark.parametrize("aggregation", ["vote", "logit-average"])
def test_a_tie_goes_to_the_class_named_first(aggregation):
    assert decide(ballots(2, 1, 1, 2), None, aggregation).winner == 1
    assert decide(ballots(0), ballots(2, 0), aggregation).winner == 0


def test_the_gate_counts_votes_whatever_the_logits():
    assert step_one_suffices(ballots(1, 1, 1, 1, 1), 5, 0.98)
    assert not step_one_suffices(ballots(1, 1, 1, 1, 0), 5, 0.98)
    assert step_one_suffices(ballots(1, 1, 1, 1, 0), 5, 0.96)
    assert step_one_suffices(ballots(0, 1, 1, 2, 1), 5, 0.70)  # the authors' command-line default stops at 3 of 5


def test_a_sequential_decision_reports_all_votes_or_abstains():
    won = SequentialTest(2, 0.2, 10)
    won.count([1] * 10)
    decision = decide_sequentially(won)
    assert decision.winner == 1
    assert decision.probabilities.tolist() == [0.0, 1.0]
    assert decision.second_votes is None
    open_vote = SequentialTest(2, 0.02, 6)
    open_vote.count([0, 1, 0, 1, 0, 1])
    decision = decide_sequentially(open_vote)
    assert decision.winner is None
    assert decision.probabilities.sum() == pytest.approx(1.0)
