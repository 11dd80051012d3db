from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from rsmi import RsmiClassifier
from rsmi.errors import ConfigError
from rsmi.method.backends import open_runner
from rsmi.method.encoder import evaluating
from rsmi.method.noise import NoisePlan, noisy_copies, row_noise
from rsmi.method.saliency import embedding_gradient
from tiny import FAMILIES, some_texts
from toy import CONFIG, LABELS, TEXTS, TRAIN

ALL = pytest.mark.parametrize("family", FAMILIES)
PLAN = NoisePlan((0, 2), 0.3)


def both(t, runner, plan=PLAN) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the model itself and of the runner, for the same noise."""
    batch, which = t.smoothed().batch(t.rows(some_texts(6, 2, 12, seed=1))), [0, 0, 1, 2, 3, 4, 5, 5]
    source = row_noise(range(len(which)), batch.rows(which).lengths)
    with torch.inference_mode(), evaluating(runner.model):
        return noisy_copies(t.encoder, plan, batch, which, source), noisy_copies(runner, plan, batch, which, source)


def both_saliencies(t, runner) -> tuple[torch.Tensor, torch.Tensor]:
    """Saliency of all maskable tokens by the model itself and by the runner, for the same noise."""
    batch = t.smoothed().batch(t.rows(some_texts(6, 2, 12, seed=1)))
    source = row_noise(range(6), batch.lengths)
    found = [embedding_gradient(each, PLAN, batch, source).saliency(batch.maskable) for each in (t.encoder, runner)]
    return found[0][batch.maskable], found[1][batch.maskable]


@ALL
@pytest.mark.parametrize("plan", [PLAN, NoisePlan((1,), 0.3, 0.2)])
def test_eight_bits_give_nearly_the_same_logits_in_every_family(family, plan, tiny_of):
    t = tiny_of(family)
    before = {name: value.clone() for name, value in t.model.state_dict().items()}
    exact, rounded = both(t, open_runner(t.encoder, "int8"), plan)
    assert not torch.equal(exact, rounded)
    leads = torch.stack([exact[:, 0] - exact[:, 1], rounded[:, 0] - rounded[:, 1]])
    assert torch.corrcoef(leads)[0, 1] > 0.8  # random weights make much of rounding
    assert all(torch.equal(value, before[name]) for name, value in t.model.state_dict().items())


@ALL
def test_eight_bits_give_nearly_the_same_saliency_in_every_family(family, tiny_of):
    t = tiny_of(family)
    exact, rounded = both_saliencies(t, open_runner(t.encoder, "int8"))
    assert not torch.equal(exact, rounded)
    assert torch.corrcoef(torch.stack([exact, rounded]))[0, 1] > 0.8
    assert all(parameter.grad is None for parameter in t.model.parameters())


def test_eight_bits_keep_one_table_of_embeddings(tiny_of):
    t = tiny_of("bert")
    runner = open_runner(t.encoder, "int8")
    assert runner.embeddings[0] is t.encoder.embeddings[0]
    assert runner.stages is not None


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_layers_give_the_same_logits_and_saliency(tiny_of):
    t = tiny_of("bert")
    exact, compiled = both(t, open_runner(t.encoder, "compile"))
    assert torch.allclose(exact, compiled, atol=1e-4)
    exact, compiled = both_saliencies(t, open_runner(t.encoder, "compile"))
    assert torch.allclose(exact, compiled, rtol=1e-3, atol=1e-5)


def test_a_backend_that_cannot_be_had_is_refused(tiny_of):
    t = tiny_of("bert")
    with pytest.raises(ConfigError, match="backend: expected one of torch, int8, compile, got 'onnx'"):
        open_runner(t.encoder, "onnx")
    with pytest.raises(ConfigError, match="expected a family with a fast path"):
        open_runner(tiny_of("t5").encoder, "compile")
    with pytest.raises(ConfigError, match="float32"):
        open_runner(replace(t.encoder, model=tiny_of("roberta").model.__class__(t.model.config).bfloat16()), "int8")


def test_a_classifier_votes_and_explains_by_its_backend(tiny_folder):
    folder = str(tiny_folder("bert", num_layers=4, dropout=0.0))
    texts = some_texts(8, 3, 12, seed=5)
    config = replace(CONFIG, aggregation="logit-average")
    plain, fast = (
        RsmiClassifier.from_pretrained(folder, config, classes=["a", "b"], seed=0, backend=backend)
        for backend in ("torch", "int8")
    )
    exact, rounded = plain.predict_proba(texts), fast.predict_proba(texts)
    assert not np.array_equal(exact, rounded)
    assert np.abs(exact - rounded).max() < 0.1
    for one, other in zip(plain.explain(texts), fast.explain(texts), strict=True):
        saliency, near = (np.array([token.saliency for token in each.tokens]) for each in (one, other))
        assert not np.array_equal(saliency, near)
        assert saliency @ near > 0.95 * np.linalg.norm(saliency) * np.linalg.norm(near)


def test_after_training_the_backend_runs_the_new_weights(tiny_folder):
    classifier = RsmiClassifier(str(tiny_folder("bert")), CONFIG.as_variant("plain"), TRAIN, seed=0, backend="int8")
    classifier.fit(TEXTS, LABELS)
    before = classifier.predict_proba(TEXTS[:8])
    exact = classifier.set_params(backend="torch").predict_proba(TEXTS[:8])
    assert np.abs(before - exact).max() < 0.1
    classifier.set_params(backend="int8").fit(TEXTS, [label if label == "neg" else "pos" for label in LABELS][::-1])
    again = classifier.predict_proba(TEXTS[:8])
    exact = classifier.set_params(backend="torch").predict_proba(TEXTS[:8])
    assert np.abs(again - exact).max() < 0.1
