"""Noise in units of the hidden states' own spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rsmi import RsmiClassifier, RsmiConfig, TrainConfig
from rsmi.errors import ConfigError
from rsmi.method.noise import NoisePlan, batch_noise, noisy, noisy_logits, row_noise
from rsmi.method.spread import ATTRIBUTE, hidden_spread, watched
from tiny import FAMILIES, Tiny, some_texts, tiny

TEXTS = some_texts(6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_spread_is_the_median_deviation_of_a_coordinate_over_tokens(family: str) -> None:
    t = tiny(family)
    found = hidden_spread(t.encoder, t.tokenizer)
    assert len(found) == t.encoder.num_layers
    assert min(found) > 0
    assert getattr(t.model.config, ATTRIBUTE) == list(found)


def test_the_spread_follows_the_size_of_the_states() -> None:
    t = tiny("bert")
    last = t.model.bert.encoder.layer[-1].output.LayerNorm
    before = hidden_spread(t.encoder, t.tokenizer)
    delattr(t.model.config, ATTRIBUTE)
    with torch.no_grad():
        last.weight.mul_(10.0)
    after = hidden_spread(t.encoder, t.tokenizer)
    assert after[:-1] == pytest.approx(before[:-1])
    assert after[-1] == pytest.approx(10 * before[-1], rel=1e-4)


def test_a_few_huge_coordinates_do_not_carry_it_away() -> None:
    t = tiny("bert")
    before = hidden_spread(t.encoder, t.tokenizer)
    delattr(t.model.config, ATTRIBUTE)
    with torch.no_grad():
        t.model.bert.encoder.layer[-1].output.LayerNorm.weight[:2].mul_(1000.0)
    assert hidden_spread(t.encoder, t.tokenizer)[-1] < 1.5 * before[-1]


def test_it_is_measured_once() -> None:
    t = tiny("bert")
    before = hidden_spread(t.encoder, t.tokenizer)
    with torch.no_grad():
        t.model.bert.encoder.layer[-1].output.LayerNorm.weight.mul_(10.0)
    assert hidden_spread(t.encoder, t.tokenizer) == before


def test_measuring_leaves_the_mode_of_the_model_alone() -> None:
    t = tiny("bert")
    t.model.train()
    hidden_spread(t.encoder, t.tokenizer)
    assert t.model.training


@pytest.mark.parametrize("family", ["bert", "albert", "t5", "modernbert"])
def test_noise_after_each_layer_is_a_multiple_of_its_unit(family: str) -> None:
    """With the same draws, what a layer's noise adds grows with the layer's own unit."""
    t = tiny(family)
    batch = t.smoothed().batch(t.rows(TEXTS))
    plan = NoisePlan((0, 2), 0.5, 0.0, (2.0, 30.0))
    source = batch_noise(1, torch.device("cpu"))
    states = []
    for own in (plan, NoisePlan((), 0.0)):
        with torch.no_grad(), noisy(t.encoder.layers, own, source), watched(t.encoder.layers) as seen:
            t.encoder.logits(batch)
        states.append(seen)
    drawn = source(0, states[0][0].shape)
    torch.testing.assert_close(states[0][0] - states[1][0], 0.5 * 2.0 * drawn, atol=1e-4, rtol=1e-4)
    assert plan.std_after(2) == 15.0
    assert plan.std_after(1) == 0.0


def test_the_fast_path_adds_the_same_noise_as_the_hooks() -> None:
    t: Tiny = tiny("bert")
    batch = t.smoothed().batch(t.rows(TEXTS))
    plan = NoisePlan((0, 2), 0.5, 0.0, (0.3, 1.7))
    source = row_noise(list(range(len(TEXTS))), batch.lengths)
    assert t.encoder.stages is not None
    with torch.no_grad():
        fast = noisy_logits(t.encoder, plan, batch, source)
        plain = noisy_logits(replace(t.encoder, stages=None), plan, batch, source)
    torch.testing.assert_close(fast, plain, atol=1e-5, rtol=1e-5)


CONFIG = RsmiConfig(noise_std=0.4, noise_unit="spread", noise_layers=2, first_votes=3, second_votes=4, max_length=16)


def test_a_trained_model_keeps_the_unit_it_was_trained_with(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    base = str(tiny_folder("roberta"))
    texts, labels = some_texts(24), ["a", "b"] * 12
    classifier = RsmiClassifier(base, CONFIG, TrainConfig(epochs=1, learning_rate=1e-2), seed=0).fit(texts, labels)
    plan = classifier.engine().plan
    fresh = RsmiClassifier(base, CONFIG, seed=0)
    loaded = fresh._load_base(2, 0)
    spread = hidden_spread(loaded.encoder, loaded.tokenizer)
    assert plan.units == tuple(spread[layer] for layer in plan.layers)  # of the encoder before it was trained
    classifier.save_pretrained(tmp_path / "model")
    again = RsmiClassifier.from_pretrained(tmp_path / "model", seed=0)
    assert again.engine().plan == plan
    np.testing.assert_array_equal(again.predict_proba(texts[:6]), classifier.predict_proba(texts[:6]))


def test_a_certificate_counts_the_noise_that_is_really_added(tiny_folder: Callable[..., Path]) -> None:
    config = replace(CONFIG, masking="none")
    classifier = RsmiClassifier.from_pretrained(tiny_folder("bert"), config, classes=["a", "b"], seed=0)
    (certificate,) = classifier.certify(TEXTS[:1], kind="l2-hidden", selection_samples=10, estimation_samples=50)
    plan = classifier.engine().plan
    assert certificate.noise_std == plan.std_after(plan.layers[0]) == pytest.approx(0.4 * plan.units[0])


def test_an_unknown_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match="noise_unit: expected one of absolute, spread"):
        RsmiConfig(noise_unit="rms")  # type: ignore[arg-type]
