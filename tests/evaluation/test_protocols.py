"""Every protocol on a tiny defended classifier, and its parts by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keywords import CoinTarget, KeywordTarget, TableAttack
from rsmi import RsmiClassifier
from rsmi.attacks.base import FRESH
from rsmi.attacks.deepwordbug import DeepWordBug
from rsmi.attacks.maskaware import BelowSaliency
from rsmi.attacks.transfer import Transfer
from rsmi.data import TextDataset
from rsmi.errors import ConfigError, LabelError
from rsmi.evaluation.protocols import (
    PROTOCOLS,
    Averaged,
    Frozen,
    OneHot,
    Tempered,
    as_it_is,
    at_temperature,
    calibrated_temperature,
    protocols_for,
    set_up,
)
from toy import CONFIG, LABELS, TEXTS, TRAIN

WORDS = {"good": ["fine", "bad"], "great": ["big"]}
DATA = TextDataset(name="toy", split="dev", texts=tuple(TEXTS[:8]), labels=tuple(LABELS[:8]), source="a test")


@pytest.fixture(scope="module")
def classifier(tiny_folder, tmp_path_factory):
    """A classifier of the toy task that masks and adds noise."""
    base = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    return RsmiClassifier(base, replace(CONFIG, noise_std=0.3), replace(TRAIN, epochs=4), seed=0).fit(TEXTS, LABELS)


def test_one_hot_scores_name_the_winner_only():
    target = OneHot(KeywordTarget({"good": 1.0}))
    assert target.query(["good", "none at all", "not"]).tolist() == [[0, 1], [1, 0], [1, 0]]


def test_averaging_takes_other_draws_each_time_and_none_twice():
    base = CoinTarget({"good": 1.0})
    target = Averaged(base, 5)
    for draw, own in ((0, range(5)), (1, range(5, 10))):
        expected = np.mean([base.query(["good"], one) for one in own], axis=0)
        assert np.allclose(target.query(["good"], draw), expected)
    assert not np.array_equal(target.query(["good"], 0), target.query(["good"], 1))
    assert target.query([]).shape == (0, 2)


def test_an_averaged_target_is_asked_anew_about_every_text():
    asked: list[tuple[str, int]] = []

    class Recording(Averaged):
        def query_each(self, texts, draws):
            asked.extend(zip(texts, draws, strict=True))
            return super().query_each(texts, draws)

    target = Recording(CoinTarget({"good": 6.0, "bad": -6.0}), 2)
    record = TableAttack({"good": ["fine", "fine", "bad"]}, fresh_draws=0)(target, "good good", "pos")
    assert record.queries == len(asked)  # none was answered from memory
    assert len(set(asked)) == len(asked)  # and none twice under the same draw
    assert ("bad good", 0) in asked


def test_a_temperature_of_one_changes_nothing_and_a_high_one_flattens():
    rows = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert np.allclose(at_temperature(rows, 1.0), rows)
    assert np.allclose(at_temperature(rows, 1e6), 0.5, atol=1e-3)
    assert np.allclose(at_temperature(rows, 0.5)[0], [0.81 / 0.82, 0.01 / 0.82])
    assert np.allclose(Tempered(KeywordTarget({"good": 2.0}), 2.0).query(["good"])[0, 1], 1 / (1 + np.exp(-1.0)))


def test_calibration_finds_the_temperature_that_was_put_in():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, 4000)
    labels = np.where(rng.random(4000) < 1 / (1 + np.exp(-scores)), "pos", "neg").tolist()
    texts = [f"w{i}" for i in range(4000)]
    sharp = KeywordTarget({text: 3 * score for text, score in zip(texts, scores, strict=True)})
    assert calibrated_temperature(sharp, texts, labels) == pytest.approx(3.0, rel=0.1)
    other = KeywordTarget({text: 3 * score + 1e-6 for text, score in zip(texts, scores, strict=True)})
    found = calibrated_temperature(other, texts, labels)
    assert found == calibrated_temperature(sharp, texts, labels)  # as with another number of threads
    with pytest.raises(LabelError, match="got 'other'"):
        calibrated_temperature(sharp, ["w1"], ["other"])


def test_frozen_noise_is_the_same_for_every_text(classifier):
    frozen = Frozen(classifier)
    keys = [frozen.engine().key(text, 0, place) for place, text in enumerate(("one", "another"))]
    assert keys[0] == keys[1]
    free = [classifier.engine().key(text, 0, place) for place, text in enumerate(("one", "another"))]
    assert free[0] != free[1]
    assert np.array_equal(frozen.query(TEXTS[:4]), frozen.query(TEXTS[:4]))
    assert not np.array_equal(frozen.query(TEXTS[:4]), frozen.query(TEXTS[:4], draw=3))


def test_what_is_found_on_a_surrogate_is_judged_by_the_target():
    surrogate, target = KeywordTarget({"good": 1.0, "bad": -3.0}), KeywordTarget({"good": 1.0, "great": 9.0})
    attack = Transfer(TableAttack(WORDS), surrogate)
    assert attack.name == "table"
    fooled = attack(target, "a good film", "pos")
    assert (fooled.outcome, fooled.adversarial) == ("succeeded", "a bad film")
    assert fooled.queries == len([text for call in target.calls for text in call]) == 2
    held = attack(target, "a good and great film", "pos")
    assert held.outcome == "failed"
    other = KeywordTarget({})
    other.classes_ = np.array(["no", "yes"])
    with pytest.raises(LabelError, match="surrogate with the target's classes"):
        Transfer(TableAttack(WORDS), other)(target, "a good film", "pos")


def test_persistence_tries_other_draws_until_one_fails():
    class Lucky(KeywordTarget):
        """Wrong about anything but the original on draws of the third try."""

        randomised = True

        def score(self, text, draw):
            return -1.0 if 20_000 <= draw < FRESH and text != "a good film" else 1.0

    attack = TableAttack(WORDS, tries=5, fresh_draws=10)
    record = attack(Lucky({}), "a good film", "pos")
    assert (record.outcome, record.tries) == ("succeeded", 3)
    assert (record.fresh_draws, record.fresh_flips) == (10, 0)  # asked again, it is right
    assert TableAttack(WORDS, tries=2)(Lucky({}), "a good film", "pos").outcome == "failed"
    calm = KeywordTarget({"good": 5.0})
    assert attack(calm, "a good good film", "pos").tries == 1  # another try would be the same
    budget = TableAttack(WORDS, tries=5, max_queries=3)(Lucky({}), "a good film", "pos")
    assert budget.queries == 3
    assert budget.budget_hit


def test_words_that_will_be_hidden_are_changed_last(classifier):
    def in_order(attack, game, places):
        yield from ()
        return list(places)

    ranking = BelowSaliency(in_order, classifier)
    text = "a fine cast and good music and a poor end"
    (hidden,) = ranking.hidden_words([text])
    (explained,) = classifier.explain([text])
    words = text.split()
    assert {words[i] for i in hidden} == {explained.tokens[i].text for i in explained.candidates}
    (pair,) = ranking.hidden_words([("a fine cast", "good music and a poor end")])
    assert pair
    assert max(pair) < 9
    attack = DeepWordBug(fresh_draws=0)
    attack.ranking = ranking
    record = attack(classifier, text, "pos")
    assert record.outcome in ("failed", "succeeded", "skipped")


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "white-box"])
def test_every_protocol_runs_and_repeats_itself(protocol, classifier):
    def run(together):
        setup = set_up(protocol, classifier, DeepWordBug, draws=2, tries=2, dev=DATA, fresh_draws=6)
        assert setup.about["name"] == protocol
        records = dict(
            setup.attack.run(setup.target, DATA.texts, DATA.labels, together=together, deployed=setup.deployed)
        )
        return [replace(records[i], gold_before=0.0, gold_after=0.0, confidence_before=0.0) for i in range(8)]

    first = run(8)
    assert first == run(3)
    assert {record.outcome for record in first} & {"failed", "succeeded"}
    assert all(record.fresh_draws == 6 for record in first if record.outcome == "succeeded")


def test_the_white_box_protocol_wants_a_white_box_attack(classifier):
    with pytest.raises(ConfigError, match="expected one of hotflip, gbda, got deepwordbug"):
        set_up("white-box", classifier, DeepWordBug)


def test_what_cannot_be_had_is_said(classifier):
    with pytest.raises(ConfigError, match="protocol: expected one of paper, vote"):
        set_up("none", classifier, DeepWordBug)
    with pytest.raises(ConfigError, match="dev texts"):
        set_up("temperature", classifier, DeepWordBug)
    with pytest.raises(ConfigError, match="with a seed"):
        set_up("paper", RsmiClassifier(classifier.base), DeepWordBug)
    plain = classifier.with_config(classifier.config_.as_variant("plain"))
    with pytest.raises(ConfigError, match="masks by gradient"):
        set_up("mask-aware", plain, DeepWordBug)


def test_a_setup_leaves_the_classifier_as_it_was(classifier):
    before = classifier.config_
    setup = set_up("paper", classifier, DeepWordBug)
    assert setup.deployed.config_.aggregation == "logit-average"
    assert classifier.config_ == before
    assert setup.deployed._loaded is classifier._loaded
    assert setup.deployed._lock is classifier._lock  # one model runs in one thread at a time
    assert as_it_is(classifier, setup.attack).target is classifier


def test_protocols_that_say_nothing_about_a_model_are_left_out(classifier):
    plain = classifier.with_config(classifier.config_.as_variant("plain"))
    assert protocols_for(plain, "textfooler") == ["paper", "temperature"]
    assert set(protocols_for(classifier, "textfooler")) == set(PROTOCOLS) - {"white-box"}
    assert protocols_for(classifier, "hotflip") == ["white-box"]
