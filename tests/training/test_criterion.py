from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from rsmi.seeds import generator
from rsmi.training.criterion import make_criterion

LOGITS = torch.randn(12, 3, generator=generator(0))
GOLD = torch.tensor([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])


def test_by_default_it_is_cross_entropy():
    loss = make_criterion(GOLD.tolist(), 3, balanced=False, label_smoothing=0.0)(LOGITS, GOLD)
    torch.testing.assert_close(loss, cross_entropy(LOGITS, GOLD))


def test_label_smoothing_is_torchs():
    loss = make_criterion(GOLD.tolist(), 3, balanced=False, label_smoothing=0.2)(LOGITS, GOLD)
    torch.testing.assert_close(loss, cross_entropy(LOGITS, GOLD, label_smoothing=0.2))


def test_balanced_classes_count_the_same():
    loss = make_criterion(GOLD.tolist(), 3, balanced=True, label_smoothing=0.0)(LOGITS, GOLD)
    by_class = [cross_entropy(LOGITS[c == GOLD], GOLD[c == GOLD]) for c in range(3)]
    torch.testing.assert_close(loss, torch.stack(by_class).mean())


def test_a_batch_counts_the_same_however_it_is_split():
    criterion = make_criterion(GOLD.tolist(), 3, balanced=True, label_smoothing=0.1)
    halves = (criterion(LOGITS[:6], GOLD[:6]) + criterion(LOGITS[6:], GOLD[6:])) / 2
    torch.testing.assert_close(halves, criterion(LOGITS, GOLD))


def test_a_class_without_a_training_text_does_no_harm():
    loss = make_criterion([0, 0, 1], 3, balanced=True, label_smoothing=0.0)(LOGITS[:3], torch.tensor([0, 1, 0]))
    assert torch.isfinite(loss)
