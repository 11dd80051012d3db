"""Low-rank adapters: trained instead of the weights, part of them in the end."""

from __future__ import annotations

import builtins
import sys

import pytest
import torch

from rsmi import RsmiClassifier
from rsmi.errors import ConfigError, MissingResourceError
from rsmi.method.tokens import collate
from rsmi.settings import updated
from rsmi.training.lora import adapters
from tiny import FAMILIES, some_texts, tiny
from toy import CONFIG, LABELS, TEXTS, TRAIN


def _train(own, batch, steps=3):
    optimizer = torch.optim.SGD([p for p in own.model.parameters() if p.requires_grad], 0.003)
    for _ in range(steps):
        optimizer.zero_grad()
        own.encoder.logits(batch).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_change_nothing_at_first_and_are_merged_in_the_end(family):
    own = tiny(family, dropout=0.0)
    batch = collate(own.rows(some_texts(4)), own.tokenizer.pad_token_id)
    names = [name for name, _ in own.model.named_parameters()]
    before = own.encoder.logits(batch).detach()
    embeddings = own.model.get_input_embeddings().weight.clone()
    with adapters(own.model, 2, key=3):
        torch.testing.assert_close(own.encoder.logits(batch).detach(), before)
        trained = [name for name, p in own.model.named_parameters() if p.requires_grad]
        assert all("lora_" in name or "modules_to_save" in name for name in trained)
        assert any("modules_to_save" in name for name in trained)  # the head
        _train(own, batch)
        own.model.eval()
        moved = own.encoder.logits(batch).detach()
    assert (moved - before).abs().max() > 1e-4
    torch.testing.assert_close(own.encoder.logits(batch).detach(), moved, rtol=1e-3, atol=1e-4)
    assert [name for name, _ in own.model.named_parameters()] == names
    assert all(p.requires_grad for p in own.model.parameters())
    assert torch.equal(own.model.get_input_embeddings().weight, embeddings)


def test_a_low_rank_is_all_that_a_layer_moves_by():
    own = tiny("bert", dropout=0.0)
    batch = collate(own.rows(some_texts(4)), own.tokenizer.pad_token_id)
    layer = own.model.bert.encoder.layer[0].intermediate.dense
    before = layer.weight.clone()
    with adapters(own.model, 2, key=3):
        _train(own, batch)
    moved = own.model.bert.encoder.layer[0].intermediate.dense.weight - before
    assert torch.linalg.matrix_rank(moved.detach(), rtol=1e-3) == 2


def test_rank_zero_trains_all_weights():
    own = tiny("bert")
    with adapters(own.model, 0, key=3):
        assert all(p.requires_grad for p in own.model.parameters())


def test_a_rank_above_that_of_the_weights_is_refused():
    own = tiny("bert")
    before = {name: weight.clone() for name, weight in own.model.named_parameters()}
    refused = pytest.raises(ConfigError, match=r"lora_rank: expected at most \d+.*, got 100000")
    with refused, adapters(own.model, 100_000, key=3):
        pass
    assert all(torch.equal(weight, before[name]) for name, weight in own.model.named_parameters())


def test_a_trained_classifier_is_an_ordinary_checkpoint(tiny_folder, tmp_path):
    folder = str(tiny_folder("bert", num_layers=2, dropout=0.0))
    classifier = RsmiClassifier(folder, CONFIG, updated(TRAIN, lora_rank=2), seed=0).fit(TEXTS, LABELS)
    classifier.save_pretrained(tmp_path / "model")
    plain = RsmiClassifier.from_pretrained(tmp_path / "model", seed=0)
    assert plain.predict_proba(TEXTS[:4]).tolist() == classifier.predict_proba(TEXTS[:4]).tolist()
    assert not (tmp_path / "model" / "adapter_config.json").exists()


def test_without_peft_the_extra_is_named(monkeypatch):
    original = builtins.__import__
    monkeypatch.delitem(sys.modules, "peft", raising=False)

    def missing(name, *args, **kwargs):
        if name == "peft":
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingResourceError, match=r"rsmi\[lora\]"), adapters(tiny("bert").model, 2, key=3):
        pass
