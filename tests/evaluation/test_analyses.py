from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import rsmi.evaluation.analyses as analyses
from rsmi import RsmiClassifier, RsmiConfig
from rsmi.errors import InputError
from rsmi.evaluation.analyses import (
    copies_settings,
    fooled_pairs,
    inference_times,
    layer_distances,
    spread_of,
    stability,
    stability_of,
)
from tiny import FAMILIES
from toy import CONFIG, FAILED

PAIRS = [("a good film", "a bad film and a poor end"), ("it was so very dull", "it was so very dull")]


def opened(tiny_folder, family="bert", config=CONFIG):
    folder = str(tiny_folder(family, num_layers=4, dropout=0.0))
    return RsmiClassifier.from_pretrained(folder, config, classes=["a", "b"], seed=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_layers_are_compared_in_every_family(family, tiny_folder):
    classifier = opened(tiny_folder, family, replace(CONFIG.as_variant("plain")))
    found = layer_distances(classifier, PAIRS[:1])
    assert [own.layer for own in found] == list(range(len(found)))
    assert all(own.l2 > 0 and -1 <= own.cosine < 1 for own in found)
    same = layer_distances(classifier, PAIRS[1:])
    assert all(own.l2 == pytest.approx(0, abs=1e-5) and own.cosine == pytest.approx(1) for own in same)


def test_the_distance_is_that_of_the_mean_hidden_states(tiny_folder):
    classifier = opened(tiny_folder, config=RsmiConfig.variant("plain"))
    loaded = classifier.engine().loaded
    states = []
    for text in PAIRS[0]:
        inputs = loaded.tokenizer([text], return_tensors="pt")
        with torch.no_grad():
            outputs = loaded.encoder.model(**inputs, output_hidden_states=True)
        states.append([hidden[0].mean(0) for hidden in outputs.hidden_states[1:]])
    for own, one, other in zip(layer_distances(classifier, PAIRS[:1]), *states, strict=True):
        assert own.l2 == pytest.approx(float((one - other).norm()), rel=1e-4)
        assert own.cosine == pytest.approx(float(torch.cosine_similarity(one, other, 0)), rel=1e-4)


def test_noise_moves_equal_texts_apart_from_its_layer_on(tiny_folder):
    classifier = opened(tiny_folder, config=replace(CONFIG, noise_layers=(2,), noise_std=0.5))
    distances = [own.l2 for own in layer_distances(classifier, PAIRS[1:])]
    assert distances[:2] == pytest.approx([0, 0], abs=1e-5)
    assert min(distances[2:]) > 0.01


def test_nothing_to_compare_is_an_error(tiny_folder):
    with pytest.raises(InputError, match="pairs"):
        layer_distances(opened(tiny_folder), [])
    assert fooled_pairs([FAILED, replace(FAILED, outcome="succeeded")]) == [("a fine film", "a good film")]


def test_stability_counts_every_run_by_its_own_draw(tiny_folder):
    classifier = opened(tiny_folder)
    texts, labels = ["a good film", "bad plot", "so very dull"], ["a", "b", "a"]
    seen = []
    found = stability(classifier, texts, labels, 6, lambda draws: seen.append(len(draws)) or draws)
    assert seen == [6]
    for draw, accuracy in enumerate(found.accuracies):
        winners = classifier.classes_[classifier.query(texts, draw).argmax(1)]
        assert accuracy == pytest.approx(np.mean(winners == np.array(labels)))
    assert found.to_dict()["n"] == 6
    with pytest.raises(InputError, match="as many labels"):
        stability(classifier, texts, labels[:1], 6)


def test_runs_on_the_texts_of_an_attack_are_not_the_draw_that_chose_them():
    asked = []

    class Fooled:
        classes_ = np.array(["a", "b"])

        def query(self, texts, draw):
            asked.append(draw)
            return np.array([[0.0, 1.0] if draw == 0 and text == "a good film" else [1.0, 0.0] for text in texts])

    fooled = replace(FAILED, original="a fine film", adversarial="a good film", label="a", outcome="succeeded")
    found = stability_of(Fooled(), [fooled], 3)
    assert 0 not in asked
    assert len(set(asked)) == 3
    assert found["adversarial"].accuracies == found["clean"].accuracies == (1.0, 1.0, 1.0)


def test_clean_texts_are_not_chosen_by_how_they_were_answered():
    class Wrong:
        classes_ = np.array(["a", "b"])

        def query(self, texts, draw):
            return np.array([[0.0, 1.0] if "poor" in text else [1.0, 0.0] for text in texts])

    right, wrong = replace(FAILED, label="a"), replace(FAILED, original="poor", label="a", outcome="skipped")
    found = stability_of(Wrong(), [right, wrong], 2)
    assert list(found) == ["clean"]
    assert (found["clean"].texts, found["clean"].accuracies) == (2, (0.5, 0.5))
    own = stability_of(Wrong(), [right, wrong], 2, clean=(["poor"] * 3, ["b"] * 3))
    assert (own["clean"].texts, own["clean"].accuracies) == (3, (1.0, 1.0))


def test_a_spread_is_mean_deviation_and_ends():
    assert spread_of([1.0, 2.0, 3.0]) == {"n": 3, "mean": 2.0, "std": 1.0, "max": 3.0, "min": 1.0}
    assert spread_of([5.0])["std"] == 0.0
    with pytest.raises(InputError):
        spread_of([])


def test_times_are_taken_by_turns_and_compared_with_the_first(monkeypatch):
    clock = itertools.count()
    order = []

    class Model:
        def __init__(self, name, ticks):
            self.name, self.ticks = name, ticks

        def predict(self, texts):
            order.append(self.name)
            for _ in range(self.ticks):
                next(clock)

    monkeypatch.setattr(analyses.time, "perf_counter", lambda: next(clock))
    found = inference_times({"plain": Model("plain", 1), "slow": Model("slow", 5)}, ["a"], repeats=2)
    assert order == ["plain", "slow"] * 3
    assert found[0].ratios == (1.0, 1.0)
    assert found[1].ratios == (3.0, 3.0)
    with pytest.raises(InputError):
        inference_times({}, ["a"])


def test_settings_of_more_and_more_copies():
    assert copies_settings([1, 10], two_step=False) == [
        {"two_step": False, "first_votes": 1},
        {"two_step": False, "first_votes": 10},
    ]
    assert copies_settings([3, 10], two_step=True) == [
        {"two_step": True, "first_votes": 3, "second_votes": 3},
        {"two_step": True, "first_votes": 5, "second_votes": 10},
    ]
