from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from rsmi.method.stopping import SequentialTest, VotesWanted, boundaries, gate_passes, until_gate, until_won

State = tuple[tuple[int, ...], frozenset[tuple[int, int]]]


@pytest.mark.parametrize(("votes", "needed"), [(3, 3), (5, 5), (7, 6), (9, 7), (11, 9), (15, 11), (21, 15), (51, 33)])
def test_the_gate_needs_the_papers_number_of_votes(votes, needed):
    assert [n for n in range(votes + 1) if gate_passes(n, votes, 0.98)] == list(range(needed, votes + 1))


def test_the_gate_is_the_cumulative_binomial_itself():
    assert gate_passes(4, 5, 31 / 32)
    assert not gate_passes(4, 5, 0.9688)  # 4 of 5 gives 0.96875


@cache
def transitions(num_classes: int, error: float, cap: int) -> dict[State, list[tuple[State | None, int | None]]]:
    """Every state the test can be in; for each class voted next, the state after it, or None and the winner."""
    start: State = ((0,) * num_classes, frozenset())
    table: dict[State, list[tuple[State | None, int | None]]] = {}
    waiting = [start]
    while waiting:
        state = waiting.pop()
        if state in table:
            continue
        table[state] = []
        for vote in range(num_classes):
            test = SequentialTest(num_classes, error, cap)
            test.counts, test._beaten = list(state[0]), set(state[1])
            test.add(vote)
            after: State = (tuple(test.counts), frozenset(test._beaten))
            table[state].append((None, test.winner) if test.done else (after, None))
            if not test.done:
                waiting.append(after)
    return table


def outcome(probabilities, error: float, cap: int) -> tuple[float, dict[int | None, float]]:
    """Expected votes and chance of each winner (None: abstains), exactly, by dynamic programming."""
    table = transitions(len(probabilities), error, cap)
    alive: dict[State, float] = {((0,) * len(probabilities), frozenset()): 1.0}
    expected, ended = 0.0, dict.fromkeys([*range(len(probabilities)), None], 0.0)
    while alive:
        expected += sum(alive.values())
        following: dict[State, float] = {}
        for state, weight in alive.items():
            for (after, winner), chance in zip(table[state], probabilities, strict=True):
                if after is None:
                    ended[winner] += weight * chance
                else:
                    following[after] = following.get(after, 0.0) + weight * chance
        alive = following
    assert sum(ended.values()) == pytest.approx(1.0)
    return expected, ended


@pytest.mark.parametrize(
    ("p", "votes", "right"), [(0.99, 9.3, 1.0), (0.9, 13.2, 1.0), (0.7, 35.5, 0.77), (0.55, 42.4, 0.078)]
)
def test_expected_votes_and_power_are_those_of_the_design(p, votes, right):
    expected, ended = outcome((p, 1 - p), 0.02, 55)
    assert round(expected, 1) == votes
    assert ended[0] == pytest.approx(right, abs=0.005)


@pytest.mark.parametrize("cap", [1, 5, 6, 12, 55, 105])
@pytest.mark.parametrize("error", [0.02, 0.05, 0.3])
def test_with_equal_classes_neither_wins_more_often_than_the_error(cap, error):
    _, ended = outcome((0.5, 0.5), error, cap)
    assert ended[0] == pytest.approx(ended[1])
    assert ended[1] <= error * (1 + 1e-9)
    if cap == 55:  # and little of it is left unused
        assert ended[1] > error * 0.9


@pytest.mark.parametrize("cap", [4, 7, 10])
@pytest.mark.parametrize("error", [0.05, 0.2])
def test_boundaries_spend_the_error_linearly_and_are_the_lowest_that_do(cap, error):
    needed = boundaries(error, cap)
    crossed = [Fraction(0)] * (cap + 1)  # by enumeration: chance that class 1 first reaches its bound at vote n
    at_bound_below = [Fraction(0)] * (cap + 1)  # chance to stand one below the bound at vote n, never declared
    for votes in product((0, 1), repeat=cap):
        own = 0
        for n, vote in enumerate(votes, start=1):
            own += vote
            if own >= needed[n - 1]:
                crossed[n] += Fraction(1, 2**cap)
                break
            if own == needed[n - 1] - 1:
                at_bound_below[n] += Fraction(1, 2**cap)
    spent = Fraction(0)
    for n in range(1, cap + 1):
        spent += crossed[n]
        assert spent <= error * n / cap * (1 + 1e-9)
        if 2 * (needed[n - 1] - 1) > n:  # a lower bound would overspend
            assert spent + at_bound_below[n] > error * n / cap


@pytest.mark.parametrize(("cap", "error"), [(5, 0.3), (9, 0.1), (12, 0.02)])
def test_dynamic_programming_agrees_with_all_vote_sequences(cap, error):
    wins, total = [0, 0], 0
    for votes in product((0, 1), repeat=cap):
        test = SequentialTest(2, error, cap)
        test.count(votes)
        assert test.done
        assert sum(test.counts) <= cap
        total += sum(test.counts)
        if test.winner is not None:
            wins[test.winner] += 1
    expected, ended = outcome((0.5, 0.5), error, cap)
    assert [wins[0] / 2**cap, wins[1] / 2**cap] == pytest.approx([ended[0], ended[1]])
    assert total / 2**cap == pytest.approx(expected)


@pytest.mark.parametrize(
    "probabilities", [(1 / 3, 1 / 3, 1 / 3), (0.5, 0.5, 0.0), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33)]
)
@pytest.mark.parametrize("error", [0.1, 0.4])
def test_of_three_classes_a_less_probable_one_seldom_wins(probabilities, error):
    _, ended = outcome(probabilities, error, 12)
    assert ended[1] + ended[2] <= error * (1 + 1e-9)
    assert ended[0] > 0  # the claim is not empty


def test_of_five_classes_the_wrong_one_seldom_wins_even_if_all_are_equal():
    rng = np.random.default_rng(0)
    runs, error, wrong = 1500, 0.2, 0
    for votes in rng.integers(0, 5, size=(runs, 55)):
        test = SequentialTest(5, error, 55)
        test.count(votes)
        wrong += test.winner not in (None, 0)
    assert wrong <= runs * error + 4 * np.sqrt(runs * error * (1 - error))


def test_a_comparison_once_won_stays_won():
    needed = boundaries(0.2 / 2, 30)
    streak = next(n for n, bound in enumerate(needed, start=1) if bound <= n)
    # class 0 beats class 1 at once; then 1 comes back above the bound, while 0 beats 2 only later
    votes = [0] * (streak - 1) + [2] + [0] + [1] * 4
    test = SequentialTest(3, 0.2, 30)
    test.count(votes)
    assert not test.done
    assert (0, 1) in test._beaten
    pair = test.counts[0] + test.counts[1]
    assert test.counts[0] < needed[pair - 1]  # it would not be won any more
    extra = 0
    while not test.done:
        test.add(0)
        extra += 1
    assert test.winner == 0
    fresh = SequentialTest(3, 0.2, 30)
    fresh.count([1] * 4 + [2] + [0] * (streak + extra))  # the same counts, but 1 in front at first
    assert fresh.winner is None


def test_it_abstains_as_soon_as_no_class_can_win():
    test = SequentialTest(2, 0.02, 12)
    test.count([0, 1] * 6)
    assert test.done
    assert test.winner is None
    assert sum(test.counts) < 12
    for more in product((0, 1), repeat=12 - sum(test.counts)):  # really no future vote would have decided
        own = list(test.counts)
        for vote in more:
            own[vote] += 1
            assert max(own) < boundaries(0.02, 12)[sum(own) - 1]


def test_a_cap_too_small_to_decide_abstains_after_one_vote():
    test = SequentialTest(2, 0.02, 5)
    test.count([0] * 5)
    assert test.done
    assert test.winner is None
    assert SequentialTest.first_chance(2, 0.02, 5) == 5


def test_votes_after_the_end_are_not_counted():
    test = SequentialTest(2, 0.2, 20)
    test.count([0] * 20)
    assert test.winner == 0
    assert test.counts == [SequentialTest.first_chance(2, 0.2, 20), 0]
    with pytest.raises(RuntimeError, match="done"):
        test.add(1)


def plurality(counts: list[int]) -> int:
    return counts.index(max(counts))


def outcome_of_step_one(counts: list[int], votes: int, confidence: float) -> tuple[bool, int]:
    passes = gate_passes(max(counts), votes, confidence)
    return passes, plurality(counts) if passes else -1


def counted(sequence: tuple[int, ...], classes: int) -> list[int]:
    return [sequence.count(own) for own in range(classes)]


def ends(counts: list[int], left: int) -> list[list[int]]:
    """All counts that `left` further votes can lead to."""
    if left == 0:
        return [counts]
    added = [[count + (own == chosen) for own, count in enumerate(counts)] for chosen in range(len(counts))]
    return [end for more in added for end in ends(more, left - 1)]


@pytest.mark.parametrize(("classes", "votes"), [(2, 1), (2, 2), (2, 7), (2, 8), (3, 5), (3, 6), (4, 4)])
def test_counting_stops_exactly_when_the_rest_cannot_change_the_winner(classes, votes):
    for sequence in product(range(classes), repeat=votes):
        settled = [
            len({plurality(end) for end in ends(counted(sequence[:n], classes), votes - n)}) == 1
            for n in range(votes + 1)
        ]
        check_against(settled, sequence, classes, lambda counts: until_won(counts, votes))


@pytest.mark.parametrize("winner_only", [True, False])
@pytest.mark.parametrize("confidence", [0.5, 0.7, 0.9, 0.98, 0.999])
@pytest.mark.parametrize(("classes", "votes"), [(2, 3), (2, 5), (2, 6), (3, 5), (4, 4)])
def test_step_one_stops_exactly_when_the_rest_cannot_change_what_it_does(classes, votes, confidence, winner_only):
    for sequence in product(range(classes), repeat=votes):
        settled = []
        for n in range(votes + 1):
            what = {
                outcome_of_step_one(end, votes, confidence) for end in ends(counted(sequence[:n], classes), votes - n)
            }
            passes = {passing for passing, _ in what}
            settled.append(n == votes or passes == {False} or (winner_only and len(what) == 1))
        check_against(settled, sequence, classes, lambda counts: until_gate(counts, votes, confidence, winner_only))


def check_against(settled: list[bool], sequence: tuple[int, ...], classes: int, wanted: VotesWanted) -> None:
    for n, done in enumerate(settled):
        more = wanted(counted(sequence[:n], classes))
        assert (more == 0) == done
        assert not any(settled[n : n + more])  # never asks for a vote that comes too late


def test_of_fifty_votes_a_clear_winner_takes_half():
    assert until_won([0, 0], 50) == 25  # the class named first wins a tie
    assert until_won([0, 25], 50) == 1
    assert until_won([25, 0], 50) == 0
    assert until_gate([0, 0], 5, 0.98, winner_only=True) == 2
    assert until_gate([1, 1], 5, 0.98, winner_only=True) == 0
