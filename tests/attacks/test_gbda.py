"""GBDA: the relaxation by itself, known answers on a linear model, trained and random transformers."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import BertPreTokenizer
from transformers import PreTrainedTokenizerFast

from keyword_model import TABLE, keyword_classifier, keyword_texts
from keywords import KeywordTarget, TableAttack
from linear_view import SWAPS, FromInside, LinearView, essence, split_parts
from rsmi import RsmiClassifier
from rsmi.attacks.constraints import FewWordsChanged
from rsmi.attacks.gbda import GBDA, Relaxation, Slot
from rsmi.attacks.whitebox import GradientView
from rsmi.attacks.words import Words, split_words
from rsmi.errors import ConfigError
from rsmi.seeds import generator
from tiny import some_texts
from toy import CONFIG, PAIRS, TEXTS

EMBEDDINGS = torch.randn(10, 4, generator=generator(0))
SLOTS = [
    Slot(0, ("a", "b", "c"), (1,), ((0,), (1,), (2,))),
    Slot(2, ("de", "fg"), (3, 4), ((3, 4), (5, 6))),
]


def relaxation(penalty=0.0, learning_rate=0.3):
    return Relaxation(SLOTS, EMBEDDINGS, num_tokens=6, num_words=4, penalty=penalty, learning_rate=learning_rate)


class LinearGBDA(FromInside, GBDA):
    """GBDA that sees a keyword target from inside."""


def linear(weights, table, bias=0.0, tokenizer=None, **settings):
    parts = split_parts(settings)
    target = KeywordTarget(weights, bias)
    view = LinearView(target, settings.get("kappa", 5.0), tokenizer)
    return target, LinearGBDA(view, rules=TableAttack(table, **parts), **settings), view


def asked(target):
    return [text for call in target.calls for text in call]


def test_at_first_words_stay_with_probability_nine_tenths_and_missing_options_have_none():
    probabilities = relaxation().probabilities()
    torch.testing.assert_close(probabilities, torch.tensor([[0.9, 0.05, 0.05], [0.9, 0.1, 0.0]]))


def test_a_certain_choice_moves_the_embeddings_to_the_chosen_words():
    relaxed = relaxation()
    with torch.no_grad():
        relaxed._weights.copy_(torch.tensor([[0.0, 0.0, 200.0], [0.0, 200.0, 0.0]]))
    shift = relaxed.sample(3, generator(1))
    expected = torch.zeros(3, 6, 4)
    expected[:, 1] = EMBEDDINGS[2] - EMBEDDINGS[0]
    expected[:, 3] = EMBEDDINGS[5] - EMBEDDINGS[3]
    expected[:, 4] = EMBEDDINGS[6] - EMBEDDINGS[4]
    torch.testing.assert_close(shift.detach(), expected)


def test_samples_are_gumbel_softmax_of_the_distribution():
    """The largest coordinate of a sample is a draw from the distribution (Jang et al. 2017)."""
    table = torch.eye(10)
    relaxed = Relaxation(SLOTS, table, 6, 4, 0.0, 0.3)
    shift = relaxed.sample(2000, generator(1)).detach()
    soft = torch.stack([1 - shift[:, 1, 1] - shift[:, 1, 2], shift[:, 1, 1], shift[:, 1, 2]], 1)
    torch.testing.assert_close(shift[:, 1, 0], -shift[:, 1, 1] - shift[:, 1, 2])
    torch.testing.assert_close(shift[:, 3, 5], shift[:, 4, 6])  # tokens of one word move together
    for option, share in enumerate((0.9, 0.05, 0.05)):
        wins = (soft.argmax(1) == option).float().mean().item()
        assert wins == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 2000))


def test_the_distribution_climbs_the_loss_and_a_penalty_holds_it_back():
    direction = torch.zeros(6, 4)
    direction[1] = EMBEDDINGS[2] - EMBEDDINGS[0]  # favours c over a
    direction[3] = EMBEDDINGS[3] - EMBEDDINGS[5]  # favours de over fg
    direction[4] = EMBEDDINGS[4] - EMBEDDINGS[6]
    free, held = relaxation(), relaxation(penalty=1000.0)
    for relaxed in (free, held):
        for step in range(60):
            shift = relaxed.sample(8, generator(step))
            relaxed.ascend(shift, direction.expand(8, -1, -1))
    assert free.probabilities()[0, 2] > 0.95
    assert free.probabilities()[1, 0] > 0.95
    assert held.probabilities()[:, 0].min() > 0.95


def test_choices_are_distinct_start_with_few_changes_and_follow_the_distribution():
    relaxed = relaxation()
    found = relaxed.choices(200, generator(3))
    assert len(set(found)) == len(found)
    assert set(found) <= {(i, j) for i in range(3) for j in range(2)} - {(0, 0)}
    assert [sum(word > 0 for word in own) for own in found] == sorted(sum(word > 0 for word in own) for own in found)
    assert {(1, 0), (2, 0), (0, 1)} <= set(found)  # each 0.045 or more: missing one of 199 draws at 1e-4
    with torch.no_grad():
        relaxed._weights.copy_(torch.tensor([[0.0, 0.0, 50.0], [50.0, 0.0, 0.0]]))
    assert relaxed.choices(1, generator(3)) == relaxed.choices(50, generator(4)) == [(2, 0)]


def test_the_known_best_words_are_found_and_few_texts_asked_about():
    weights = {"good": 3.0, "great": 2.0, "bad": -2.0, "dull": -1.0}
    table = {"good": ["fine", "bad"], "great": ["fine", "dull"], "film": ["movie", "plot"], "cast": ["actor"]}
    target, attack, _ = linear(weights, table, kappa=1.0, penalty=2.0, num_draws=4)
    record = attack(target, "a good film with a great cast", "pos")
    # 5.0: only both replacements together go below 0, and neither film nor cast need to change
    assert record.outcome == "succeeded"
    assert record.adversarial == "a bad film with a dull cast"
    assert record.queries <= 1 + 16  # of 3 x 3 x 3 x 2 = 54 texts


def test_of_the_texts_that_fool_the_one_with_the_fewest_changes_is_returned():
    weights = {"good": 1.0, "bad": -1.0, "film": 0.5, "plot": -0.5}
    target, attack, _ = linear(weights, {"good": ["bad"], "film": ["plot"]}, num_draws=4, num_steps=5)
    record = attack(target, "a good film", "pos")
    assert record.words_changed == 1
    assert record.adversarial == "a bad film"


def test_every_step_has_its_own_draws():
    target, attack, view = linear({"good": 1.0}, {"good": ["bad"]}, num_draws=3, num_steps=4)
    attack(target, "a good film", "pos")
    assert [len(question.keys) for question in view.asked] == [3] * 4
    assert len({key for question in view.asked for key in question.keys}) == 12
    assert {tuple(question.shift.shape[:2]) for question in view.asked} == {(3, 5)}


def test_constraints_hold_for_whole_texts():
    weights = {"good": 1.0, "great": 1.0, "fine": 1.0, "bad": -0.1}
    table = {word: ["bad"] for word in ("good", "great", "fine")}
    text = "good great fine film"
    for share, changed in ((0.5, 2), (0.25, 1)):
        target, attack, _ = linear(weights, table, bias=5.0, num_draws=4, constraints=[FewWordsChanged(share)])
        record = attack(target, text, "pos")
        assert record.outcome == "failed"
        counts = {
            sum(old != new for old, new in zip(text.split(), other.split(), strict=True)) for other in asked(target)
        }
        assert max(counts) == changed
        assert record.words_changed == changed  # the nearest text is kept
        assert len(asked(target)) == len(set(asked(target)))


def test_stopwords_and_premises_stay():
    weights = {"good": 1.0, "bad": -1.0, "great": 1.0}
    parts = {"stopwords": frozenset({"great"}), "frozen_columns": ("premise", "hypothesis")}
    table = {"good": ["bad"], "great": ["bad"]}
    target, attack, _ = linear(weights, table, num_draws=2, num_steps=20, **parts)
    pair = ("a good film", "a good and great plot")
    ((_, frozen),) = attack.run(target, [pair], ["pos"], columns=("premise", "hypothesis"))
    assert {text[0] for text in asked(target)} == {"a good film"}
    assert {text[1] for text in asked(target)} == {"a good and great plot", "a bad and great plot"}
    assert frozen.outcome == "failed"


def test_a_text_without_replacements_costs_one_query():
    target, attack, view = linear({"good": 1.0}, {})
    record = attack(target, "a good film", "pos")
    assert (record.outcome, record.queries, record.adversarial) == ("failed", 1, "a good film")
    assert view.asked == []


def test_only_replacements_of_as_many_tokens_are_used():
    pieces = ["[PAD]", "[UNK]", "[MASK]", "a", "film", "good", "un", "##good", "##fun", "bad"]
    tokenizer = Tokenizer(WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = BertPreTokenizer()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    table = {"good": ["bad", "ungood"], "ungood": ["unfun", "good"]}
    target, attack, _ = linear({"good": 1.0}, table, bias=9.0, tokenizer=fast, num_steps=1)
    attack(target, "a good ungood film", "pos")
    assert set(asked(target)) == {
        "a good ungood film",
        "a bad ungood film",
        "a good unfun film",
        "a bad unfun film",
    }


@pytest.mark.parametrize("budget", [1, 2, 5])
def test_the_budget_is_never_exceeded(budget):
    weights, table = {"good": 1.0}, {"good": ["bad", "dull"], "film": ["plot", "cast"], "a": ["the", "an"]}
    target, attack, _ = linear(weights, table, bias=9.0, max_queries=budget, num_steps=3, num_draws=2)
    record = attack(target, "a good film", "pos")
    assert record.queries == budget
    assert record.budget_hit


def test_it_finds_adversarial_texts_against_a_trained_model_with_few_queries():
    classifier = keyword_classifier("plain")
    texts, labels = keyword_texts(12, seed=1)
    attack = GBDA(rules=TableAttack(TABLE), num_steps=30, num_draws=4)
    records = [record for _, record in attack.run(classifier, texts, labels)]
    attacked = [record for record in records if record.outcome != "skipped"]
    found = [record for record in attacked if record.outcome == "succeeded"]
    assert len(attacked) >= 10
    assert len(found) >= 0.8 * len(attacked)
    for record in found:
        assert classifier.predict([record.adversarial])[0] != record.label
        before, after = split_words(record.original), split_words(record.adversarial)
        assert all(new == old or new in TABLE[old] for old, new in zip(before, after, strict=True))
    assert np.mean([record.queries for record in found]) < 15  # of 6^10 texts


def test_against_a_noisy_model_it_averages_and_its_texts_fool_other_draws_too(monkeypatch):
    classifier = keyword_classifier("rsmi", noise_std=0.3)
    texts, labels = keyword_texts(8, seed=2)
    sizes = set()
    slopes = GradientView.slopes

    def spy(self, questions):
        sizes.update(len(question.keys) for question in questions)
        return slopes(self, questions)

    monkeypatch.setattr(GradientView, "slopes", spy)
    attack = GBDA(rules=TableAttack(TABLE), num_steps=30, num_draws=5, fresh_draws=10)
    found = [record for _, record in attack.run(classifier, texts, labels) if record.outcome == "succeeded"]
    assert sizes == {5}
    assert len(found) >= 6
    assert sum(record.fresh_flips for record in found) > 0.6 * sum(record.fresh_draws for record in found)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
@pytest.mark.parametrize("variant", ["rsmi", "no-mask", "plain"])
@pytest.mark.parametrize("pairs", [False, True])
def test_every_family_and_variant_can_be_attacked(family, variant, pairs, tiny_folder):
    classifier = RsmiClassifier.from_pretrained(
        tiny_folder(family, num_layers=2), CONFIG.as_variant(variant), classes=["neg", "pos"], seed=0
    )
    texts = PAIRS[:3] if pairs else [TEXTS[0], *some_texts(2)]
    labels = classifier.classes_[classifier.query(texts).argmax(1)].tolist()
    attack = GBDA(rules=TableAttack(SWAPS), num_steps=8, num_draws=2, num_samples=12, fresh_draws=2)
    records = dict(attack.run(classifier, texts, labels, seed=1))
    assert all(record.outcome != "skipped" for record in records.values())
    assert any(record.words_changed > 0 for record in records.values())
    with torch.inference_mode():  # a caller's modes do not matter
        alone = dict(attack.run(classifier, texts, labels, seed=1, together=1))
    assert {place: essence(record) for place, record in alone.items()} == {
        place: essence(record) for place, record in records.items()
    }
    assert all(parameter.grad is None for parameter in classifier.engine().loaded.encoder.model.parameters())
    for place, record in records.items():
        before, after = Words.of(texts[place]).words, Words.of(record.adversarial).words
        assert all(new == old or new in SWAPS[old] for old, new in zip(before, after, strict=True))


def test_settings_say_what_a_result_depends_on_and_bad_ones_are_refused():
    rules = TableAttack({})
    attack = GBDA(rules=rules, kappa=2.0)
    wanted = {"num_steps": 50, "num_draws": 10, "num_samples": 100, "kappa": 2.0, "penalty": 1.0, "learning_rate": 0.3}
    assert wanted.items() <= attack.settings.items()
    assert attack.settings["rules"] == rules.settings
    assert pickle.loads(pickle.dumps(attack)).settings == attack.settings
    for name in ("num_steps", "num_draws", "num_samples"):
        with pytest.raises(ConfigError, match=f"{name}: expected 1 or more, got 0"):
            GBDA(rules=rules, **{name: 0})
    for bad in ({"kappa": -1.0}, {"penalty": -1.0}, {"learning_rate": 0.0}, {"kappa": math.nan}):
        with pytest.raises(ConfigError, match="expected kappa and penalty"):
            GBDA(rules=rules, **bad)


def test_rules_can_be_named():
    attack = GBDA(rules="deepwordbug")
    assert attack.rules.name == "deepwordbug"
    assert attack.settings["rules"]["name"] == "deepwordbug"
    with pytest.raises(ConfigError, match=r"expected one of .*textfooler"):
        GBDA(rules="nothing")
    with pytest.raises(ConfigError, match="rules: expected a word attack, such as textfooler or pwws"):
        GBDA(rules=attack)
