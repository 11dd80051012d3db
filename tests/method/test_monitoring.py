from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmi import under_attack
from rsmi.errors import InputError
from rsmi.method.monitoring import WEIGHTS, Signals, Weights, signals, watch
from rsmi.records import Prediction, Token

ANY = Weights(intercept=-1.0, disagreement=2.0, escalation=1.0, concentration=0.5)


def prediction(first, second=None, saliency=(1.0, 1.0), label="neg", specials=2) -> Prediction:
    """A prediction with these votes and saliencies; special tokens stand around the others."""
    special = Token(text="[SEP]", start=-1, end=-1, sequence=-1, saliency=0.0)
    own = [Token(text="a", start=i, end=i + 1, sequence=0, saliency=value) for i, value in enumerate(saliency)]
    names = [f"class {i}" for i in range(len(first))]
    return Prediction(
        text="a" * len(saliency),
        label=label,
        probabilities={},
        first_votes=dict(zip(names, first, strict=True)),
        second_votes=None if second is None else dict(zip(names, second, strict=True)),
        masked=(),
        candidates=(),
        masks_wanted=1,
        truncated=False,
        tokens=(*own, *[special] * specials),
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((5, 0), None, 0.0),
        ((4, 1), None, 0.4),
        ((3, 2), (22, 28), 2 * 25 / 55),  # 25 against 30 of 55, over the half that is the most
        ((5, 5), None, 1.0),
        ((2, 2, 2), None, 1.0),
        ((4, 1, 1), None, (1 / 3) / (2 / 3)),
        ((1, 0), None, 0.0),
        ((0, 0), None, 0.0),
    ],
)
def test_disagreement_is_the_share_against_the_winner_over_the_most_there_can_be(first, second, expected):
    assert signals(prediction(first, second)).disagreement == pytest.approx(expected)


def test_escalation_counts_a_second_step_and_an_abstention():
    assert signals(prediction((5, 0))).escalation == 0.0
    assert signals(prediction((3, 2), (50, 0))).escalation == 1.0
    assert signals(prediction((28, 27), label=None)).escalation == 1.0


@pytest.mark.parametrize(
    ("saliency", "expected"),
    [
        ((1.0, 1.0, 1.0), 0.0),
        ((3.0, 0.0, 0.0), 1.0),
        ((1.0, 1.0, 0.0, 0.0), 0.5),  # log 2 of log 4
        ((0.0, 0.0), 0.0),  # masks that do not follow the gradient
        ((2.0,), 0.0),
        ((), 0.0),
        ((math.inf, 1.0), 0.0),
        ((math.nan, 1.0), 0.0),
    ],
)
@pytest.mark.parametrize("specials", [0, 2])
def test_concentration_is_one_less_the_entropy_over_its_most(saliency, expected, specials):
    found = signals(prediction((5, 0), saliency=saliency, specials=specials)).concentration
    assert found == pytest.approx(expected)


def test_a_score_is_the_logistic_of_the_weighted_signals():
    own = Signals(disagreement=0.5, escalation=1.0, concentration=0.2)
    assert ANY.score(own) == pytest.approx(1 / (1 + math.exp(1.0 - 1.0 - 1.0 - 0.1)))


votes = st.lists(st.integers(0, 60), min_size=2, max_size=5)
share = st.floats(0, 1)


@given(votes, st.one_of(st.none(), votes), st.lists(st.floats(0, 1e30), max_size=12))
def test_every_prediction_has_a_score_between_0_and_1(first, second, saliency):
    second = None if second is None else (second * 3)[: len(first)]
    found = prediction(first, second, saliency)
    assert all(0 <= value <= 1 for value in signals(found).to_dict().values())
    assert 0 <= under_attack(found) <= 1


@given(share, share, share, share)
def test_more_disagreement_or_escalation_never_lowers_a_score(one, other, concentration, escalation):
    less, more = sorted((one, other))
    for weights in (WEIGHTS, ANY):
        low = Signals(disagreement=less, escalation=0.0, concentration=concentration)
        high = Signals(disagreement=more, escalation=escalation, concentration=concentration)
        assert weights.score(low) <= weights.score(high)


def test_a_split_vote_scores_higher_than_a_clear_one():
    assert under_attack(prediction((3, 2), (26, 24))) > under_attack(prediction((5, 0)))


@pytest.mark.parametrize("far", [-1e6, 1e6])
def test_weights_of_any_size_do_not_overflow(far):
    own = Signals(disagreement=0.0, escalation=0.0, concentration=0.0)
    extreme = Weights(intercept=far, disagreement=0.0, escalation=0.0, concentration=0.0)
    assert extreme.score(own) == (1.0 if far > 0 else 0.0)


@pytest.mark.parametrize("wrong", [{"disagreement": -0.1}, {"escalation": -1.0}, {"concentration": math.nan}])
def test_weights_that_are_not_monotone_or_finite_are_refused(wrong):
    with pytest.raises(InputError, match="weights: expected"):
        Weights(**{**ANY.to_dict(), **wrong})


def test_a_window_tells_the_share_that_escalated():
    seen = [prediction((5, 0)), prediction((3, 2), (30, 20)), prediction((5, 0)), prediction((4, 1), (50, 0))]
    window = watch(iter(seen), ANY)
    assert (window.texts, window.escalated) == (4, 0.5)
    assert window.under_attack == pytest.approx(sum(under_attack(own, ANY) for own in seen) / 4)
    assert window.disagreement == pytest.approx(sum(signals(own).disagreement for own in seen) / 4)
    with pytest.raises(InputError, match="at least one prediction"):
        watch([])
