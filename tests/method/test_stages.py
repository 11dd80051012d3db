"""The fast path against the ordinary forward pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from rsmi.method.encoder import open_encoder
from rsmi.method.masking import top_positions
from rsmi.method.noise import NoisePlan, batch_noise, noisy_copies, noisy_logits, row_noise
from rsmi.method.saliency import embedding_gradient
from rsmi.method.voting import Ballot, collect_votes
from rsmi.seeds import derive
from tiny import FAMILIES, some_texts

STAGED = ("bert", "roberta", "distilbert", "electra")
ALL_STAGED = pytest.mark.parametrize("family", STAGED)
PLANS = {
    "silent": NoisePlan((), 0.0),
    "first": NoisePlan((0,), 0.3),
    "spread": NoisePlan((0, 2), 0.3),
    "late": NoisePlan((2,), 0.3),
    "last": NoisePlan((1, 3), 0.3),
    "embeddings": NoisePlan((1,), 0.3, 0.2),
    "embeddings only": NoisePlan((), 0.0, 0.2),
}
ALL_PLANS = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
TEXTS = some_texts(6, 2, 14, seed=3)


def plain(t):
    return replace(t.encoder, stages=None)


def test_a_family_has_a_fast_path_or_takes_the_ordinary_one(tiny_of):
    assert [family for family in FAMILIES if tiny_of(family).encoder.stages is not None] == list(STAGED)


@pytest.mark.parametrize("settings", [{"is_decoder": True}, {"position_embedding_type": "relative_key"}])
def test_a_variant_that_is_not_known_takes_the_ordinary_path(settings):
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = BertConfig(vocab_size=20, **shape)
    for name, value in settings.items():
        setattr(config, name, value)
    assert open_encoder(BertForSequenceClassification(config)).stages is None


@ALL_STAGED
@ALL_PLANS
def test_noisy_logits_are_those_of_the_ordinary_path(family, plan, tiny_of):
    t = tiny_of(family, 3)
    batch = t.smoothed().batch(t.rows(TEXTS))
    source = row_noise([derive(7, i) for i in range(len(TEXTS))], batch.lengths)
    expected = noisy_logits(plain(t), plan, batch, source)
    assert torch.allclose(noisy_logits(t.encoder, plan, batch, source), expected, atol=1e-5)


@ALL_STAGED
@ALL_PLANS
def test_copies_share_what_comes_before_the_noise_and_differ_after_it(family, plan, tiny_of):
    t = tiny_of(family, 3)
    batch, which = t.smoothed().batch(t.rows(TEXTS)), [2, 0, 0, 5, 2, 1]
    source = row_noise([derive(8, i) for i in range(len(which))], batch.rows(which).lengths)
    expected = noisy_logits(plain(t), plan, batch.rows(which), source)
    for encoder in (t.encoder, plain(t)):
        assert torch.allclose(noisy_copies(encoder, plan, batch, which, source), expected, atol=1e-5)
    assert plan.silent == torch.allclose(expected[1], expected[2], atol=1e-5)


@ALL_STAGED
def test_layers_before_the_first_noise_run_once_a_row(family, tiny_of):
    t = tiny_of(family)
    seen = []

    def counted(block):
        def run(hidden, read, first_only):
            seen.append((len(hidden), first_only))
            return block(hidden, read, first_only)

        return run

    stages = replace(t.encoder.stages, blocks=tuple(counted(block) for block in t.encoder.stages.blocks))
    batch = t.smoothed().batch(t.rows(TEXTS[:2]))
    source = row_noise(range(10), batch.rows([0, 1] * 5).lengths)
    noisy_copies(replace(t.encoder, stages=stages), NoisePlan((1,), 0.5), batch, [0, 1] * 5, source)
    assert seen == [(2, False), (2, False), (10, False), (10, True)]


@ALL_STAGED
@ALL_PLANS
def test_saliency_and_masks_are_those_of_the_ordinary_path(family, plan, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(TEXTS))
    source = row_noise([derive(9, i) for i in range(2 * len(TEXTS))], batch.repeat(2).lengths)
    found = [embedding_gradient(encoder, plan, batch, source, 2) for encoder in (t.encoder, plain(t))]
    # entries are of the order of 0.1; float32 sums differ by 2e-6 between processors with and without AVX-512
    assert torch.allclose(found[0].gradient, found[1].gradient, rtol=1e-3, atol=1e-5)
    masks = [top_positions(own.saliency(batch.maskable), batch.maskable, 3) for own in found]
    assert masks[0] == masks[1]


@ALL_STAGED
def test_votes_are_those_of_the_ordinary_path(family, tiny_of):
    t = tiny_of(family, 3)
    rows = t.rows(TEXTS)
    masks = ((1,), (2,), (1,), (1, 2), (), (2,))
    ballots = [Ballot(row, masks, tuple(derive(i, copy) for copy in range(6))) for i, row in enumerate(rows)]
    fast = collect_votes(t.smoothed(token_budget=60), ballots)
    slow = collect_votes(replace(t.smoothed(token_budget=60), encoder=plain(t)), ballots)
    for one, other in zip(fast, slow, strict=True):
        assert np.allclose(one.logits, other.logits, atol=1e-5)
        assert one.ballots.tolist() == other.ballots.tolist()


def test_noise_drawn_for_a_whole_batch_has_the_same_votes_in_distribution(tiny_of):
    t = tiny_of("bert")
    row = t.rows(["a fine film and a poor end"])[0]
    batch = t.smoothed().batch([row])
    draws = 3000
    shares = []
    for encoder, key in ((t.encoder, 1), (plain(t), 2)):
        source = batch_noise(key, torch.device("cpu"))
        logits = noisy_copies(encoder, NoisePlan((0, 2), 1.0), batch, [0] * draws, source)
        shares.append(float((logits.argmax(1) == 0).double().mean()))
    spread = (shares[1] * (1 - shares[1]) * 2 / draws) ** 0.5
    assert 0.05 < shares[1] < 0.95
    assert abs(shares[0] - shares[1]) < 4 * spread


@ALL_STAGED
def test_pairs_and_segments_are_read_as_on_the_ordinary_path(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows([("a good film", "the end"), ("bad", "it was so very dull")]))
    source = row_noise([1, 2], batch.lengths)
    expected = noisy_logits(plain(t), NoisePlan((0,), 0.2), batch, source)
    assert torch.allclose(noisy_logits(t.encoder, NoisePlan((0,), 0.2), batch, source), expected, atol=1e-5)


def test_a_model_in_training_takes_the_ordinary_path(tiny_of, monkeypatch):
    t = tiny_of("bert")
    batch = t.smoothed().batch(t.rows(TEXTS))
    broken = replace(t.encoder, stages=replace(t.encoder.stages, blocks=()))
    t.model.train()
    try:
        assert noisy_logits(broken, PLANS["first"], batch, row_noise([1] * 6, batch.lengths)).shape == (6, 2)
    finally:
        t.model.eval()
