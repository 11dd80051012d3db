"""Claims about `fit` and scikit-learn's conventions."""

from __future__ import annotations

import os
import pickle
import random
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import Pipeline
from transformers import TrainerCallback

from rsmi import RsmiClassifier, RsmiConfig, TrainConfig
from rsmi.errors import ConfigError, InputError, LabelError, RsmiWarning, TrainingError, UnsupportedModelError
from rsmi.method.tokens import collate
from tiny import FAMILIES
from toy import CONFIG, LABELS, PAIRS, TEXTS, TRAIN

LEARN = replace(TRAIN, epochs=8)


@pytest.fixture(scope="module")
def shallow(tiny_folder):
    return str(tiny_folder("bert", num_layers=2, dropout=0.0))


def _weights(classifier):
    return classifier._loaded.encoder.model.state_dict()


def _same_weights(left, right):
    return all(torch.equal(value, _weights(right)[name]) for name, value in _weights(left).items())


@pytest.mark.parametrize(("method", "variant"), [("rsmi", "rsmi"), ("finetune", "plain")])
def test_both_methods_learn_a_separable_task(shallow, method, variant):
    classifier = RsmiClassifier(shallow, CONFIG.as_variant(variant), replace(LEARN, method=method), seed=0)
    assert classifier.fit(TEXTS, LABELS) is classifier
    assert classifier.score(TEXTS, LABELS) == 1.0
    history = classifier.training_["history"]
    assert [epoch["epoch"] for epoch in history] == list(range(1, 9))
    assert history[-1]["loss"] < history[0]["loss"]
    assert classifier.classes_.tolist() == ["neg", "pos"]


@pytest.mark.parametrize("method", ["rsmi", "finetune"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains(tiny_folder, family, method):
    folder = str(tiny_folder(family, dropout=0.0))
    classifier = RsmiClassifier(folder, CONFIG, replace(TRAIN, method=method), seed=0).fit(TEXTS[:16], LABELS[:16])
    assert np.isfinite(classifier.training_["history"][0]["loss"])
    assert not classifier._loaded.encoder.model.training
    assert set(classifier.predict(TEXTS[:4])) <= {"neg", "pos"}


def test_pairs_and_int_labels_can_be_learned(shallow):
    numbers = np.array([10 if label == "pos" else -3 for label in LABELS])
    classifier = RsmiClassifier(shallow, CONFIG.as_variant("plain"), replace(LEARN, method="finetune"), seed=0)
    classifier.fit(PAIRS, numbers)
    assert classifier.classes_.tolist() == [-3, 10]
    assert classifier.score(PAIRS, numbers) == 1.0
    assert classifier.predict(PAIRS).dtype.kind == "i"


@pytest.mark.parametrize("method", ["rsmi", "finetune"])
def test_fitting_leaves_the_global_random_states_untouched(shallow, method):
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    RsmiClassifier(shallow, CONFIG, replace(TRAIN, method=method, dev_fraction=0.2), seed=1).fit(TEXTS, LABELS)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1][1].tolist()
    assert torch.equal(torch.get_rng_state(), before[2])


@pytest.mark.parametrize("method", ["rsmi", "finetune"])
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(tiny_folder, method):
    folder = str(tiny_folder("bert"))  # with dropout
    config = replace(TRAIN, method=method)

    def fitted(seed, noise):
        torch.rand(noise)  # the global state must not matter
        return RsmiClassifier(folder, CONFIG, config, classes=["neg", "pos"], seed=seed).fit(TEXTS, LABELS)

    first = fitted(3, 1)
    assert _same_weights(first, fitted(3, 2))
    assert not _same_weights(first, fitted(4, 1))


def test_the_new_head_depends_on_the_seed_only(tiny_folder):
    def head(seed):
        classifier = RsmiClassifier(str(tiny_folder("bert")), CONFIG, replace(TRAIN, learning_rate=1e-12), seed=seed)
        return _weights(classifier.fit(TEXTS[:6] + ["the end"] * 2, ["a", "b", "c", "a", "b", "c", "a", "b"]))

    assert torch.equal(head(1)["classifier.weight"], head(1)["classifier.weight"])
    assert not torch.equal(head(1)["classifier.weight"], head(2)["classifier.weight"])


def test_fit_starts_afresh_from_the_base(shallow):
    classifier = RsmiClassifier(shallow, CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS)
    first = {name: value.clone() for name, value in _weights(classifier).items()}
    classifier.fit(TEXTS, LABELS)
    assert all(torch.equal(value, first[name]) for name, value in _weights(classifier).items())


def test_the_best_dev_epoch_is_kept(shallow):
    classifier = RsmiClassifier(shallow, CONFIG.as_variant("plain"), seed=0)
    wrong = ["neg" if label == "pos" else "pos" for label in LABELS]
    # the dev labels are the wrong way round, so the first epoch is the best one and training makes it worse
    config = TrainConfig(method="finetune", epochs=5, learning_rate=2e-4, batch_size=16)
    classifier.fit(TEXTS, LABELS, config, dev=(TEXTS, wrong))
    scores = [epoch["dev_accuracy"] for epoch in classifier.training_["history"]]
    assert max(scores) > scores[-1]
    assert classifier.score(TEXTS, wrong) == pytest.approx(max(scores))


def test_a_stratified_part_is_held_out_by_default(shallow):
    classifier = RsmiClassifier(shallow, CONFIG, replace(TRAIN, dev_fraction=0.25), seed=0).fit(TEXTS, LABELS)
    assert (classifier.training_["num_texts"], classifier.training_["num_dev_texts"]) == (36, 12)
    assert "dev_accuracy" in classifier.training_["history"][0]


def test_a_loss_that_is_not_finite_is_a_training_error_and_leaves_no_model(shallow):
    classifier = RsmiClassifier(shallow, CONFIG, replace(LEARN, learning_rate=1e30, max_grad_norm=1e30), seed=0)
    with pytest.raises(TrainingError, match="the loss is nan at update 2 of 48"):
        classifier.fit(TEXTS, LABELS)
    assert not hasattr(classifier, "classes_")


BAD_LABELS = {
    "too few": LABELS[:-1],
    "none": None,
    "a string": "pos",
    "one class": ["pos"] * len(TEXTS),
    "a gap": [None, *LABELS[1:]],
    "NaN": [float("nan"), *LABELS[1:]],
    "NA": pd.Series([pd.NA, *LABELS[1:]], dtype="string"),
    "an empty name": ["", *LABELS[1:]],
    "both kinds": [1, *LABELS[1:]],
    "bools": [label == "pos" for label in LABELS],
    "floats": [0.5] * len(TEXTS),
    "arrays": [np.array([0, 1])] * len(TEXTS),
    "an array without dimensions": np.array(3),
}


@pytest.mark.parametrize("labels", BAD_LABELS.values(), ids=BAD_LABELS)
def test_labels_that_do_not_fit_are_a_label_error(shallow, labels):
    with pytest.raises(LabelError):
        RsmiClassifier(shallow, CONFIG, TRAIN).fit(TEXTS, labels)


def test_labels_outside_the_classes_are_a_label_error(shallow):
    with pytest.raises(LabelError, match="'pos'"):
        RsmiClassifier(shallow, CONFIG, TRAIN, classes=["neg", "neutral"]).fit(TEXTS, LABELS)
    with pytest.raises(LabelError, match="'odd'"):
        RsmiClassifier(shallow, CONFIG, TRAIN).fit(TEXTS, LABELS, dev=(TEXTS, ["odd"] * len(TEXTS)))


def test_no_training_texts_are_an_input_error(shallow):
    with pytest.raises(InputError, match="got none"):
        RsmiClassifier(shallow, CONFIG, TRAIN).fit([], [])


def test_micro_batches_do_not_change_what_is_learned(shallow):
    plain = CONFIG.as_variant("plain")
    config = replace(TRAIN, method="finetune", learning_rate=1e-4)
    whole = RsmiClassifier(shallow, plain, config, seed=0).fit(TEXTS, LABELS)
    split = RsmiClassifier(shallow, plain, replace(config, micro_batch_size=2), seed=0).fit(TEXTS, LABELS)
    np.testing.assert_allclose(split.predict_proba(TEXTS[:8]), whole.predict_proba(TEXTS[:8]), atol=2e-3)
    assert split.training_["history"][0]["loss"] == pytest.approx(whole.training_["history"][0]["loss"], rel=1e-3)


def test_bfloat16_training_works_on_a_cpu_and_does_not_last(shallow, tmp_path):
    classifier = RsmiClassifier(shallow, CONFIG.as_variant("plain"), replace(TRAIN, precision="bf16"), seed=0).fit(
        TEXTS, LABELS
    )
    assert _weights(classifier)["classifier.weight"].dtype == torch.float32
    assert not [name for name in os.environ if name.startswith("ACCELERATE_")]
    classifier.save_pretrained(tmp_path / "saved")
    loaded = RsmiClassifier.from_pretrained(tmp_path / "saved", seed=0)
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS[:8]), classifier.predict_proba(TEXTS[:8]))
    assert np.isfinite(classifier.training_["history"][0]["loss"])


def test_a_clone_has_the_settings_and_no_model(shallow):
    original = RsmiClassifier(shallow, CONFIG, TRAIN, classes=["neg", "pos"], seed=5).fit(TEXTS, LABELS)
    copied = clone(original)
    assert copied.get_params() == original.get_params()
    assert not hasattr(copied, "classes_")
    assert copied.fit(TEXTS, LABELS).predict(TEXTS).tolist() == original.predict(TEXTS).tolist()


def test_a_fitted_classifier_can_be_pickled_for_worker_processes(shallow):
    original = RsmiClassifier(shallow, CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS)
    assert pickle.loads(pickle.dumps(original)).predict_proba(TEXTS).tolist() == original.predict_proba(TEXTS).tolist()


def test_nested_settings_can_be_read_and_set():
    classifier = RsmiClassifier()
    params = classifier.get_params()
    assert params["config__noise_std"] == RsmiConfig().noise_std
    assert params["train_config__epochs"] == TrainConfig().epochs
    assert "config__noise_std" not in classifier.get_params(deep=False)
    assert classifier.set_params(config__noise_std=0.7, train_config__epochs=2, seed=4) is classifier
    assert classifier.get_params()["config__noise_std"] == classifier.config.noise_std == 0.7
    assert (classifier.train_config.epochs, classifier.seed) == (2, 4)


def test_a_profile_stands_for_settings(shallow, tmp_path):
    classifier = RsmiClassifier(shallow, train_config=TRAIN, profile="balanced", seed=0)
    assert classifier.config_ == clone(classifier).config_ == RsmiConfig.profile("balanced")
    classifier.set_params(config__noise_layers=1).fit(TEXTS, LABELS)  # it has two layers only
    assert classifier.config_ == RsmiConfig.profile("balanced", noise_layers=1)
    classifier.save_pretrained(tmp_path / "model")
    again = RsmiClassifier.from_pretrained(tmp_path / "model", profile="fast")
    assert again.config_ == RsmiConfig.profile("fast")
    assert again.with_config(RsmiConfig()).config_ == RsmiConfig()
    assert RsmiClassifier.from_pretrained(tmp_path / "model").config_ == classifier.config_


def test_settings_and_a_profile_are_one_too_many():
    with pytest.raises(ConfigError, match="expected config or profile, got both"):
        RsmiClassifier(config=CONFIG, profile="fast").fit(TEXTS, LABELS)


def test_settings_that_only_fit_together_can_be_set_together():
    assert RsmiClassifier().set_params(config__num_masks=8, config__num_candidates=9).config_.num_masks == 8
    assert RsmiClassifier().set_params(config__num_candidates=9, config__num_masks=8).config_.num_masks == 8


@pytest.mark.parametrize("name", ["noise", "config__noise", "train_config__epoch", "model__noise_std"])
def test_unknown_settings_are_refused_by_name(name):
    with pytest.raises(ValueError, match=name.split("__")[-1]):
        RsmiClassifier().set_params(**{name: 1})


def test_a_wrong_nested_setting_is_a_config_error():
    with pytest.raises(ConfigError, match="noise_std"):
        RsmiClassifier().set_params(config__noise_std=-1)


def test_a_pipeline_can_hold_the_classifier(shallow):
    pipeline = Pipeline([("classify", RsmiClassifier(shallow, CONFIG, TRAIN, seed=0))])
    pipeline.set_params(classify__config__noise_std=0.3, classify__train_config__epochs=8)
    assert pipeline.fit(TEXTS, LABELS).score(TEXTS, LABELS) == 1.0
    assert pipeline.named_steps["classify"].config_.noise_std == 0.3
    assert pipeline.predict_proba(TEXTS).shape == (len(TEXTS), 2)


def test_cross_validation_scores_every_fold(shallow):
    scores = cross_val_score(
        RsmiClassifier(shallow, CONFIG, LEARN, seed=0), TEXTS, LABELS, cv=StratifiedKFold(2), error_score="raise"
    )
    assert len(scores) == 2
    assert min(scores) > 0.7  # 0.5 by guessing


def test_a_grid_search_goes_over_nested_settings(shallow):
    search = GridSearchCV(
        RsmiClassifier(shallow, CONFIG, TRAIN, seed=0), {"config__noise_std": [0.0, 0.4]}, cv=2, error_score="raise"
    )
    search.fit(TEXTS, LABELS)
    assert search.best_estimator_.config_.noise_std == search.best_params_["config__noise_std"]
    assert len(search.cv_results_["mean_test_score"]) == 2


def test_a_class_of_one_text_still_trains_with_a_warning(shallow):
    texts, labels = [*TEXTS[:8], "the end"], [*LABELS[:8], "other"]
    classifier = RsmiClassifier(shallow, CONFIG, replace(TRAIN, dev_fraction=0.1), seed=0)
    with pytest.warns(RsmiWarning, match="class 'other' has one training text"):
        classifier.fit(texts, labels)
    assert classifier.classes_.tolist() == ["neg", "other", "pos"]


def test_callbacks_of_transformers_are_called(shallow):
    updates = []

    class Counter(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            updates.append(state.global_step)

    RsmiClassifier(shallow, CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS, callbacks=[Counter()])
    assert updates == list(range(1, 7))


def test_numbers_are_reported_where_asked(shallow, monkeypatch):
    seen = []
    asked = transformers.training_args.TrainingArguments.__post_init__

    def post_init(self):
        seen.append(self.report_to)
        self.report_to = "none"  # what is asked for is not installed here
        asked(self)

    monkeypatch.setattr(transformers.training_args.TrainingArguments, "__post_init__", post_init)
    RsmiClassifier(shallow, CONFIG, replace(TRAIN, report_to="tensorboard"), seed=0).fit(TEXTS, LABELS)
    assert seen == ["tensorboard"]


def test_a_label_unseen_in_training_is_named(shallow):
    with pytest.raises(LabelError, match=r"dev texts: label 1: expected one of \['neg', 'pos'\], got 'meh'"):
        RsmiClassifier(shallow, CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS, dev=(["good", "so"], ["pos", "meh"]))


def test_adversarial_texts_are_added_after_the_dev_texts_are_held_out(shallow):
    added = (["a warm film", "a cold film"], ["pos", "neg"])
    settings = replace(TRAIN, method="advaug", dev_fraction=0.25)
    training = RsmiClassifier(shallow, CONFIG, settings, seed=0).fit(TEXTS, LABELS, added=added).training_
    assert (training["num_texts"], training["num_added_texts"], training["num_dev_texts"]) == (38, 2, 12)


@pytest.mark.parametrize(("method", "added"), [("advaug", None), ("rsmi", (["a film"], ["pos"]))])
def test_only_advaug_takes_added_texts_and_it_needs_them(shallow, method, added):
    with pytest.raises(ConfigError, match="to add"):
        RsmiClassifier(shallow, CONFIG, replace(TRAIN, method=method), seed=0).fit(TEXTS, LABELS, added=added)


def test_safer_needs_a_table_of_synonyms(shallow):
    classifier = RsmiClassifier(shallow, CONFIG.as_variant("safer"), replace(TRAIN, method="safer"), seed=0)
    with pytest.raises(ConfigError, match="--synonyms"):
        classifier.fit(TEXTS, LABELS)


def test_an_empty_dev_set_is_an_input_error(shallow):
    with pytest.raises(InputError, match="got none"):
        RsmiClassifier(shallow, CONFIG, TRAIN, seed=0).fit(TEXTS, LABELS, dev=([], []))


def test_grouping_by_length_uses_every_text_once_and_pads_less(shallow):
    texts = [" ".join(["good" if i % 2 else "bad"] * (1 + i % 9)) for i in range(144)]
    labels = ["pos" if i % 2 else "neg" for i in range(144)]
    seen: dict[bool, list[tuple[int, int]]] = {}
    for grouped in (False, True):
        shapes: list[tuple[int, int]] = []
        classifier = RsmiClassifier(shallow, CONFIG.as_variant("plain"), seed=0)
        with patch("rsmi.training.features.collate", side_effect=_noting(shapes)):
            config = replace(TRAIN, method="finetune", epochs=1, dev_fraction=0.0, group_by_length=grouped)
            classifier.fit(texts, labels, replace(config, batch_size=4))
        seen[grouped] = shapes
    assert sum(rows for rows, _ in seen[False]) == sum(rows for rows, _ in seen[True]) == len(texts)
    assert sum(r * w for r, w in seen[True]) < 0.8 * sum(r * w for r, w in seen[False])


def test_patience_ends_training_early(shallow):
    config = replace(TRAIN, epochs=9, learning_rate=1e-9, patience=2, dev_fraction=0.2)  # nothing is learned
    classifier = RsmiClassifier(shallow, CONFIG, config, seed=0).fit(TEXTS, LABELS)
    assert len(classifier.training_["history"]) == 3
    with pytest.raises(ConfigError, match="dev set"):
        RsmiClassifier(shallow, CONFIG, replace(config, dev_fraction=0.0), seed=0).fit(TEXTS, LABELS)


def _noting(shapes):
    def collating(rows, pad_token_id):
        batch = collate(rows, pad_token_id)
        shapes.append(tuple(batch.input_ids.shape))
        return batch

    return collating


def test_a_model_with_few_layers_needs_no_noise_layers_where_there_is_no_noise(shallow):
    assert RsmiConfig.variant("plain").noise_layers == 3
    RsmiClassifier(shallow, RsmiConfig.variant("plain"), replace(TRAIN, method="finetune"), seed=0).fit(TEXTS, LABELS)


@pytest.mark.parametrize("family", ["albert", "mpnet"])
def test_a_family_that_cannot_checkpoint_gradients_says_so(tiny_folder, family):
    config = replace(TRAIN, gradient_checkpointing=True)
    with pytest.raises(UnsupportedModelError, match="gradient"):
        RsmiClassifier(str(tiny_folder(family)), CONFIG, config, seed=0).fit(TEXTS, LABELS)
