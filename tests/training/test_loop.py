"""Claims about the training loop around an objective."""

from __future__ import annotations

import pytest
import torch
from transformers import TrainerCallback

from rsmi.config import RsmiConfig, TrainConfig
from rsmi.errors import ConfigError, TrainingError
from rsmi.method.noise import NoisePlan
from rsmi.method.tokens import mask_token_id
from rsmi.training import arguments, loop
from rsmi.training.features import Collator, Example, as_batch
from rsmi.training.loop import Labelled, make_objective, run_training
from tiny import some_texts, tiny

TEXTS = some_texts(14)
LABELS = [0, 1] * 7


def _train(monkeypatch, num_texts=8, noise_std=0.0, key=5, dropout=0.0, **settings):
    """Train a tiny model and return the gradients before each update, the model and the history."""
    seen = []

    class Watcher(TrainerCallback):
        def __init__(self, _title):
            pass

        def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
            seen.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})

    monkeypatch.setattr(loop, "ProgressBar", Watcher)
    own = tiny("bert", num_layers=2, dropout=dropout)
    config = TrainConfig(epochs=1, learning_rate=1e-6, max_grad_norm=1e9, **settings)
    method = RsmiConfig(noise_std=noise_std, noise_layers=2, num_masks=1)
    objective = make_objective(own.encoder, NoisePlan((0, 1), noise_std), method, config, mask_token_id(own.tokenizer))
    train = Labelled(own.rows(TEXTS[:num_texts]), LABELS[:num_texts])
    trained = run_training(own.encoder, objective, config, train, None, own.tokenizer.pad_token_id, key, progress=True)
    return seen, own.model, trained.history


@pytest.mark.parametrize("method", ["rsmi", "finetune"])
@pytest.mark.parametrize("micro", [1, 2, 4])
def test_an_update_does_not_depend_on_its_micro_batches(monkeypatch, method, micro):
    whole, _, _ = _train(monkeypatch, method=method, batch_size=8, embedding_step=2.0)
    split, _, _ = _train(monkeypatch, method=method, batch_size=8, embedding_step=2.0, micro_batch_size=micro)
    assert len(whole) == len(split) == 1
    for name, grad in whole[0].items():
        torch.testing.assert_close(split[0][name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("method", ["rsmi", "finetune"])
def test_the_last_smaller_update_does_not_depend_on_its_micro_batches(monkeypatch, method):
    # 5 texts in parts of 2, 2 and 1: the lone text must not weigh twice as much as the others
    whole, _, _ = _train(monkeypatch, num_texts=5, method=method, batch_size=8)
    split, _, _ = _train(monkeypatch, num_texts=5, method=method, batch_size=8, micro_batch_size=2)
    assert len(whole) == len(split) == 1
    for name, grad in whole[0].items():
        torch.testing.assert_close(split[0][name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("noise_std", [0.0, 0.4])
def test_checkpointing_gives_the_same_gradients(monkeypatch, noise_std):
    plain, _, _ = _train(monkeypatch, noise_std=noise_std, batch_size=8)
    checkpointed, _, _ = _train(monkeypatch, noise_std=noise_std, batch_size=8, gradient_checkpointing=True)
    for name, grad in plain[0].items():
        torch.testing.assert_close(checkpointed[0][name], grad, rtol=1e-4, atol=1e-6)


def test_parts_of_an_update_draw_different_noise(monkeypatch):
    keys = []
    original = loop.RsmiObjective.loss

    def spy(self, step):
        keys.append(step.key)
        return original(self, step)

    monkeypatch.setattr(loop.RsmiObjective, "loss", spy)
    _train(monkeypatch, num_texts=8, batch_size=4, micro_batch_size=2)
    assert len(set(keys)) == len(keys) == 4


def test_training_ends_in_eval_mode_without_hooks(monkeypatch):
    _, model, history = _train(monkeypatch, batch_size=8, noise_std=0.3, dropout=0.1)
    assert not any(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    assert [epoch["epoch"] for epoch in history] == [1]


def test_a_loss_that_is_not_finite_is_a_training_error(monkeypatch):
    def broken(self, step):
        return next(step.model.parameters()).sum() * torch.nan

    monkeypatch.setattr(loop.RsmiObjective, "loss", broken)
    with pytest.raises(TrainingError, match="lower learning_rate"):
        _train(monkeypatch, batch_size=8)


def test_no_temporary_folder_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    _train(monkeypatch, batch_size=8)
    assert list(tmp_path.iterdir()) == []


def test_more_processes_than_texts_of_an_update_is_a_config_error(monkeypatch):
    monkeypatch.setattr(arguments, "count", lambda: 3)
    for settings in ({"batch_size": 8}, {"batch_size": 2}, {"batch_size": 8, "micro_batch_size": 4}):
        with pytest.raises(ConfigError, match="batch_size"):
            _train(monkeypatch, **settings)


def test_collating_and_undoing_it_keeps_the_batch():
    own = tiny("bert")
    rows = own.rows(["a good film", "it was so dull"])
    tensors = Collator(own.tokenizer.pad_token_id)([Example(rows[0], 1), Example(rows[1], 0)])
    batch = as_batch(tensors)
    assert tensors["labels"].tolist() == [1, 0]
    assert batch.lengths == (5, 6)
    assert batch.token_type_ids is not None
    assert batch.maskable.sum().item() == 7
