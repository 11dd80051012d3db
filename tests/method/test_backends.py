from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from rsmi import RsmiClassifier
from rsmi.errors import ConfigError
from rsmi.method.backends import open_voter
from rsmi.method.encoder import evaluating
from rsmi.method.noise import NoisePlan, noisy_copies, row_noise
from tiny import FAMILIES, some_texts
from toy import CONFIG, LABELS, TEXTS, TRAIN

ALL = pytest.mark.parametrize("family", FAMILIES)
PLAN = NoisePlan((0, 2), 0.3)


def both(t, voter, plan=PLAN) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits of the model itself and of the voter, for the same noise."""
    batch, which = t.smoothed().batch(t.rows(some_texts(6, 2, 12, seed=1))), [0, 0, 1, 2, 3, 4, 5, 5]
    source = row_noise(range(len(which)), batch.rows(which).lengths)
    with torch.inference_mode(), evaluating(voter.model):
        return noisy_copies(t.encoder, plan, batch, which, source), noisy_copies(voter, plan, batch, which, source)


@ALL
@pytest.mark.parametrize("plan", [PLAN, NoisePlan((1,), 0.3, 0.2)])
def test_eight_bits_give_nearly_the_same_logits_in_every_family(family, plan, tiny_of):
    t = tiny_of(family)
    before = {name: value.clone() for name, value in t.model.state_dict().items()}
    exact, rounded = both(t, open_voter(t.encoder, "int8"), plan)
    assert not torch.equal(exact, rounded)
    leads = torch.stack([exact[:, 0] - exact[:, 1], rounded[:, 0] - rounded[:, 1]])
    assert torch.corrcoef(leads)[0, 1] > 0.8  # random weights make much of rounding
    assert all(torch.equal(value, before[name]) for name, value in t.model.state_dict().items())


def test_eight_bits_keep_one_table_of_embeddings(tiny_of):
    t = tiny_of("bert")
    voter = open_voter(t.encoder, "int8")
    assert voter.embeddings[0] is t.encoder.embeddings[0]
    assert voter.stages is not None


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_layers_give_the_same_logits(tiny_of):
    t = tiny_of("bert")
    exact, compiled = both(t, open_voter(t.encoder, "compile"))
    assert torch.allclose(exact, compiled, atol=1e-4)


def test_a_backend_that_cannot_be_had_is_refused(tiny_of):
    t = tiny_of("bert")
    with pytest.raises(ConfigError, match="backend: expected one of torch, int8, compile, got 'onnx'"):
        open_voter(t.encoder, "onnx")
    with pytest.raises(ConfigError, match="expected a family with a fast path"):
        open_voter(tiny_of("t5").encoder, "compile")
    with pytest.raises(ConfigError, match="float32"):
        open_voter(replace(t.encoder, model=tiny_of("roberta").model.__class__(t.model.config).bfloat16()), "int8")


def test_a_classifier_votes_by_its_backend_and_explains_by_its_weights(tiny_folder):
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
        assert [token.saliency for token in one.tokens] == [token.saliency for token in other.tokens]
        assert one.masked == other.masked


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
