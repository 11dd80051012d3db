"""HotFlip: known answers on a linear model, adversarial texts against trained and random transformers."""

from __future__ import annotations

import gc
import math
import pickle
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
import torch

from keyword_model import TABLE, keyword_classifier, keyword_texts
from keywords import KeywordTarget, TableAttack
from linear_view import SWAPS, FromInside, LinearView, essence, split_parts
from rsmi import RsmiClassifier
from rsmi.attacks import guided
from rsmi.attacks.hotflip import HotFlip, first_order
from rsmi.attacks.whitebox import GradientView
from rsmi.attacks.words import Words, split_words
from rsmi.errors import ConfigError
from tiny import some_texts
from toy import CONFIG, PAIRS, TEXTS

FAMILIES = pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
VARIANTS = pytest.mark.parametrize("variant", ["rsmi", "no-mask", "plain"])


class LinearHotFlip(FromInside, HotFlip):
    """HotFlip that sees a keyword target from inside."""


def linear(weights: Mapping[str, float], table: Mapping[str, Sequence[str]], bias: float = 0.0, **settings):
    parts = split_parts(settings)
    target = KeywordTarget(weights, bias)
    view = LinearView(target)
    return target, LinearHotFlip(view, rules=TableAttack(table, **parts), **settings), view


def test_where_the_gradient_is_exact_every_query_is_a_step_towards_the_fewest_changes():
    weights = {"good": 3.0, "great": 2.0, "fine": 1.0, "warm": 0.5, "dull": -1.0, "cold": -0.5}
    table = {"good": ["fine", "dull"], "great": ["fine"], "fine": ["good", "warm"], "film": ["plot", "cast"]}
    target, attack, _ = linear(weights, table, num_queried=1)
    record = attack(target, "a good film with a great and fine plot", "pos")
    # 6.0: good -> dull costs 4, great -> fine 1, fine -> warm 0.5; the rest leads nowhere
    assert record.outcome == "failed"
    assert record.adversarial == "a dull film with a fine and warm plot"
    asked = [text for call in target.calls for text in call]
    assert asked[:4] == [
        "a good film with a great and fine plot",
        "a dull film with a great and fine plot",
        "a dull film with a fine and fine plot",
        "a dull film with a fine and warm plot",
    ]
    target, attack, _ = linear(weights, table, bias=-0.75, num_queried=1)
    record = attack(target, "a good film with a great and fine plot", "pos")
    assert (record.outcome, record.queries, record.words_changed) == ("succeeded", 3 + 1, 3)


def test_the_most_promising_few_are_asked_about_and_the_worst_of_those_that_fool_is_returned():
    target, attack, _ = linear(
        {"good": 1.0, "bad": -3.0, "dull": -2.0, "poor": -1.0}, {"good": ["fine", "poor", "bad", "dull"]}, num_queried=3
    )
    record = attack(target, "a good film", "pos")
    assert (record.adversarial, record.queries) == ("a bad film", 1 + 3)
    assert "a fine film" not in [text for call in target.calls for text in call]


def test_a_beam_finds_what_greed_misses():
    """Two words that flip only together, and one that alone promises more but leads nowhere."""

    class Together(KeywordTarget):
        def score(self, text, draw):
            words = text.split()
            both = words[0] == "bad" and words[1] == "dull"
            return 2.0 - 4.0 * both - 0.2 * ("bad" in words) - 0.1 * ("dull" in words) - 1.0 * ("cold" in words)

    def attack(width):
        target = Together({"bad": -0.2, "dull": -0.1, "cold": -1.0})
        table = {"good": ["bad", "cold"], "great": ["dull"]}
        view = LinearView(target)
        return LinearHotFlip(view, rules=TableAttack(table), beam_width=width)(target, "good great film", "pos")

    assert attack(1).outcome == "failed"
    assert (attack(2).outcome, attack(2).adversarial) == ("succeeded", "bad dull film")


def test_stopwords_premises_and_forbidden_words_stay_and_no_word_changes_twice():
    weights = {"good": 3.0, "great": 2.0, "fine": 1.0, "bad": -9.0}
    table = {"good": ["bad", "fine"], "great": ["fine", "bad"], "fine": ["bad"]}

    class NoBad:
        def keep(self, original, current, index, options):
            yield from ()
            return [option for option in options if option.word != "bad"]

    target, attack, _ = linear(
        weights, table, stopwords=frozenset({"great"}), constraints=[NoBad()], frozen_columns=("premise", "hypothesis")
    )
    pair = ("a good film", "a good plot and a great cast")
    ((_, frozen),) = attack.run(target, [pair], ["pos"], columns=("premise", "hypothesis"))
    assert frozen.adversarial == ("a good film", "a fine plot and a great cast")  # and fine -> bad is not tried
    ((_, free),) = attack.run(target, [pair], ["pos"])
    assert free.adversarial == ("a fine film", "a fine plot and a great cast")


@pytest.mark.parametrize("budget", range(1, 8))
def test_the_budget_is_never_exceeded(budget):
    weights = {"good": 3.0, "great": 2.0, "bad": -1.0}
    table = {"good": ["fine", "bad"], "great": ["dull", "bad"]}
    target, attack, _ = linear(weights, table, max_queries=budget, num_queried=2)
    record = attack(target, "a good and great film", "pos")
    assert record.queries <= budget
    assert (record.outcome == "succeeded") == (budget >= 4)
    assert record.budget_hit == (budget < 4)


def test_averages_run_over_fresh_draws_each_step_and_one_is_enough_without_noise():
    for randomised, draws in ((True, 7), (False, 1)):
        table = {"good": ["fine"], "great": ["dull"]}
        target, attack, view = linear({"good": 3.0, "great": 2.0}, table, bias=1.0, num_draws=7)
        target.randomised = randomised
        attack(target, "a good and great film", "pos")
        assert {len(question.keys) for question in view.asked} == {draws}
        assert len({key for question in view.asked for key in question.keys}) == draws * 3  # steps: 2, and the last


def test_first_order_gains_by_hand():
    table = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [4.0, 0.0]])
    gradient = torch.tensor([[1.0, 2.0], [3.0, 0.0]])
    # own tokens 0 and 1: 1 + 0. Tokens 2 and 3: 6 + 12; token 2 alone: 6 + 6; 1, 2 and 3, of mean (2, 1): 4 + 6
    gains = first_order(table, gradient, [0, 1], [(2, 3), (2,), (1, 2, 3), ()])
    np.testing.assert_allclose(gains, [17.0, 11.0, 9.0, 0.0], rtol=1e-6)


def test_it_finds_adversarial_texts_against_a_trained_model_with_few_queries():
    classifier = keyword_classifier("plain")
    texts, labels = keyword_texts(16, seed=1)
    assert (classifier.predict(texts) == labels).mean() >= 0.9
    records = [record for _, record in HotFlip(rules=TableAttack(TABLE)).run(classifier, texts, labels)]
    attacked = [record for record in records if record.outcome != "skipped"]
    found = [record for record in attacked if record.outcome == "succeeded"]
    assert len(found) >= 0.8 * len(attacked)
    for record in found:
        assert classifier.predict([record.adversarial])[0] != record.label
        before, after = split_words(record.original), split_words(record.adversarial)
        assert all(new == old or new in TABLE[old] for old, new in zip(before, after, strict=True))
    # asking about all texts with so many of ten words changed, each to one of five, against eight a word
    exhaustive = [math.comb(10, record.words_changed) * 5**record.words_changed for record in found]
    assert sum(record.queries for record in found) < 0.05 * sum(exhaustive)
    assert sum(record.queries for record in found) < 25 * len(found)


@pytest.mark.parametrize("variant", ["no-mask", "rsmi"])
def test_against_a_noisy_model_it_averages_and_beats_the_search_without_gradients(variant, monkeypatch):
    classifier = keyword_classifier(variant, noise_std=0.3)
    texts, labels = keyword_texts(12, seed=2)
    sizes = set()
    slopes = GradientView.slopes

    def spy(self, questions):
        sizes.update(len(question.keys) for question in questions)
        return slopes(self, questions)

    monkeypatch.setattr(GradientView, "slopes", spy)
    rules = TableAttack(TABLE, fresh_draws=0)
    guided = [record for _, record in HotFlip(rules=rules, num_draws=6, fresh_draws=0).run(classifier, texts, labels)]
    blind = [record for _, record in rules.run(classifier, texts, labels)]
    assert sizes == {6}
    succeeded = sum(record.outcome == "succeeded" for record in guided)
    assert succeeded >= 9
    assert succeeded > sum(record.outcome == "succeeded" for record in blind)
    assert sum(record.queries for record in guided) < sum(record.queries for record in blind)


@FAMILIES
@VARIANTS
@pytest.mark.parametrize("pairs", [False, True])
def test_every_family_and_variant_can_be_attacked(family, variant, pairs, tiny_folder):
    classifier = RsmiClassifier.from_pretrained(
        tiny_folder(family, num_layers=2), CONFIG.as_variant(variant), classes=["neg", "pos"], seed=0
    )
    texts = PAIRS[:4] if pairs else [*TEXTS[:2], *some_texts(2)]
    labels = classifier.classes_[classifier.query(texts).argmax(1)].tolist()
    attack = HotFlip(rules=TableAttack(SWAPS), num_draws=3, num_queried=4, max_queries=25, fresh_draws=3)
    records = dict(attack.run(classifier, texts, labels, seed=1))
    assert all(record.outcome != "skipped" for record in records.values())
    assert any(record.words_changed > 0 for record in records.values())
    alone = dict(attack.run(classifier, texts, labels, seed=1, together=1))
    assert {place: essence(record) for place, record in alone.items()} == {
        place: essence(record) for place, record in records.items()
    }
    for place, record in records.items():
        before, after = Words.of(texts[place]).words, Words.of(record.adversarial).words
        assert all(new == old or new in SWAPS[old] for old, new in zip(before, after, strict=True))


def test_settings_say_what_a_result_depends_on_and_bad_ones_are_refused():
    rules = TableAttack({}, max_queries=3)
    attack = HotFlip(rules=rules, beam_width=2, loss="margin")
    wanted = {"name": "hotflip", "beam_width": 2, "num_queried": 8, "num_draws": 10, "loss": "margin"}
    assert wanted.items() <= attack.settings.items()
    assert attack.settings["rules"] == rules.settings
    assert pickle.loads(pickle.dumps(attack)).settings == attack.settings
    for name in ("beam_width", "num_queried", "num_draws"):
        with pytest.raises(ConfigError, match=f"{name}: expected 1 or more, got 0"):
            HotFlip(rules=rules, **{name: 0})
    with pytest.raises(ConfigError, match="loss: expected cross-entropy or margin, got 'hinge'"):
        HotFlip(rules=rules, loss="hinge")


def test_two_runs_side_by_side_see_their_own_models_which_go_when_they_end():
    texts, labels = keyword_texts(2, seed=1)
    attack = HotFlip(rules=TableAttack(TABLE))
    alone = [dict(attack.run(keyword_classifier(variant), texts, labels)) for variant in ("plain", "gm")]
    runs = [attack.run(keyword_classifier(variant), texts, labels) for variant in ("plain", "gm")]  # both begun first
    for run, expected in zip(runs, alone, strict=True):
        assert {place: essence(record) for place, record in run} == {
            place: essence(record) for place, record in expected.items()
        }
    del run, runs
    gc.collect()
    assert len(guided._VIEWS) == 0
