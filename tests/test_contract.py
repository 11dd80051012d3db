"""What every `Defense` promises; a new one is added by one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rsmi import Defense, RsmiClassifier
from rsmi.errors import InputError, RsmiError
from rsmi.settings import updated
from toy import CONFIG, LABELS, SYNONYMS, TEXTS, TRAIN


def _rsmi(variant: str, method: str = "rsmi", **settings: Any) -> tuple[Callable[..., Defense], type[Any]]:
    def build(folder: str, seed: int | None) -> Defense:
        table = SYNONYMS if variant == "safer" else None
        train_config = updated(TRAIN, method=method, **settings)
        return RsmiClassifier(folder, CONFIG.as_variant(variant), train_config, synonyms=table, seed=seed)

    return build, RsmiClassifier


# name: (how to build one from a model folder and a seed, the class that loads it)
DEFENSES = {
    "rsmi": _rsmi("rsmi"),
    "finetune": _rsmi("plain", "finetune"),
    "freelb": _rsmi("plain", "freelb"),
    "infobert": _rsmi("plain", "infobert"),
    "safer": _rsmi("safer", "safer"),
    "advaug": _rsmi("plain", "advaug"),
    "lora": _rsmi("rsmi", lora_rank=2),
    "no-mask": _rsmi("no-mask"),
    "no-two-step": _rsmi("no-two-step"),
    "rm": _rsmi("rm"),
    "gm": _rsmi("gm"),
}
UNSEEN = ["a fine film", "dull and cold", "the actor was never warm", "joy", "no plot , no end !"]


@pytest.fixture(scope="module", params=DEFENSES)
def name(request):
    return request.param


@pytest.fixture(scope="module", params=["bert", "roberta", "t5"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def build(name, family, tiny_folder):
    folder = str(tiny_folder(family, num_layers=2, dropout=0.0))
    return lambda seed=0: DEFENSES[name][0](folder, seed)


@pytest.fixture(scope="module")
def fit(name):
    added = {"added": (["a warm story", "cold and dull"], ["pos", "neg"])} if name == "advaug" else {}
    return lambda defense: defense.fit(TEXTS, LABELS, **added)


@pytest.fixture(scope="module")
def defense(build, fit):
    return fit(build())


def _parameters(defense):
    modules = [value for value in vars(defense).values() if isinstance(value, torch.nn.Module)]
    if isinstance(defense, RsmiClassifier):
        modules.append(defense._loaded.encoder.model)
    assert modules
    return [parameter for module in modules for parameter in module.parameters()]


def test_it_is_a_defense(defense):
    assert isinstance(defense, Defense)
    assert isinstance(defense.randomised, bool)
    assert isinstance(defense.uses_gradients, bool)


def test_fit_returns_itself(build, fit):
    defense = build()
    assert fit(defense) is defense


def test_classes_are_sorted_and_name_the_columns(defense):
    assert defense.classes_.tolist() == sorted(set(LABELS))
    winners = defense.classes_[defense.predict_proba(UNSEEN).argmax(1)]
    assert winners.tolist() == defense.predict(UNSEEN).tolist()


def test_rows_of_probabilities_are_finite_and_sum_to_one(defense):
    rows = defense.predict_proba(UNSEEN)
    assert rows.shape == (len(UNSEEN), 2)
    assert np.isfinite(rows).all()
    assert (rows >= 0).all()
    np.testing.assert_allclose(rows.sum(1), 1.0)


def test_a_query_is_answered_like_a_prediction_and_blank_texts_too(defense):
    np.testing.assert_allclose(defense.query(UNSEEN), defense.predict_proba(UNSEEN), atol=1e-6)
    rows = defense.query(["", " ", UNSEEN[0]])
    assert rows.shape == (3, 2)
    np.testing.assert_allclose(rows.sum(1), 1.0)
    assert defense.query([]).shape == (0, 2)


def test_only_a_randomised_defense_answers_another_draw_differently(defense):
    texts = [f"{text} {number}" for text in UNSEEN for number in range(8)]
    draws = [defense.query(texts, draw) for draw in (0, 1, 1)]
    np.testing.assert_array_equal(draws[1], draws[2])
    if not defense.randomised:
        np.testing.assert_array_equal(draws[0], draws[1])


def test_answers_are_classes_one_a_text(defense):
    answers = defense.predict(UNSEEN)
    assert answers.shape == (len(UNSEEN),)
    assert set(answers.tolist()) <= set(LABELS)


def test_the_same_seed_gives_the_same_answer(defense, build, fit):
    np.testing.assert_array_equal(defense.predict_proba(UNSEEN), defense.predict_proba(UNSEEN))
    again = fit(build())
    np.testing.assert_array_equal(again.predict_proba(UNSEEN), defense.predict_proba(UNSEEN))


def test_neighbours_do_not_matter_under_a_seed(defense):
    alone = np.concatenate([defense.predict_proba([text]) for text in UNSEEN])
    np.testing.assert_allclose(alone, defense.predict_proba(UNSEEN), atol=1e-5)


def test_only_a_randomised_defense_may_answer_differently_without_a_seed(build, fit):
    unseeded = fit(build(seed=None))
    once, again = unseeded.predict_proba(UNSEEN), unseeded.predict_proba(UNSEEN)
    assert unseeded.randomised or np.allclose(once, again, atol=1e-6)


def test_saving_and_loading_agree(defense, name, tmp_path):
    defense.save_pretrained(tmp_path / "model")
    loaded = DEFENSES[name][1].from_pretrained(tmp_path / "model", seed=0)
    assert loaded.classes_.tolist() == defense.classes_.tolist()
    np.testing.assert_array_equal(loaded.predict_proba(UNSEEN), defense.predict_proba(UNSEEN))


def test_a_lone_text_is_refused(defense):
    for method in (defense.predict, defense.predict_proba):
        with pytest.raises(InputError, match=r"pass \[text\]"):
            method("a fine film")


def test_it_must_be_fitted_first(build):
    with pytest.raises(RsmiError):
        build().predict(UNSEEN)


def test_parameters_are_untouched_by_predict(defense):
    before = [(parameter.clone(), parameter.grad) for parameter in _parameters(defense)]
    defense.predict(UNSEEN)
    defense.predict_proba(UNSEEN)
    for parameter, (value, grad) in zip(_parameters(defense), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is grad or torch.equal(parameter.grad, grad)
