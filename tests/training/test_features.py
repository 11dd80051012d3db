"""The order of the training texts, and what each epoch sees of them."""

from __future__ import annotations

import pytest
import torch

from rsmi.training.criterion import make_criterion
from rsmi.training.features import NO_LABEL, EpochOrder, Examples
from tiny import some_texts, tiny

LENGTHS = [5, 9, 3, 7, 7, 4, 8, 6, 5, 3, 9]


@pytest.mark.parametrize("grouped", [0, 4])
def test_an_order_follows_key_and_epoch_alone(grouped):
    one, two = EpochOrder(LENGTHS, 3, grouped), EpochOrder(LENGTHS, 3, grouped)
    list(one)  # a run that has been through epoch 0
    for order in (one, two):
        order.set_epoch(4)
    assert list(one) == list(two)
    assert sorted(one) == list(range(11))
    two.set_epoch(5)
    assert list(one) != list(two)
    assert list(EpochOrder(LENGTHS, 4, grouped)) != list(EpochOrder(LENGTHS, 3, grouped))


@pytest.mark.parametrize("grouped", [0, 4])
def test_filling_up_adds_places_beyond_the_texts_and_changes_nothing_else(grouped):
    filled = EpochOrder(LENGTHS, 3, grouped, multiple=4)
    assert len(filled) == len(list(filled)) == 12
    assert list(filled) == [*EpochOrder(LENGTHS, 3, grouped), 11]


def test_a_place_beyond_the_texts_counts_for_nothing():
    texts = Examples(tiny("bert").rows(some_texts(3)), [0, 1, 1])
    assert texts[3].label == NO_LABEL
    criterion = make_criterion([0, 1, 1], 2, balanced=True, label_smoothing=0.1)
    logits = torch.randn(4, 2, generator=torch.Generator().manual_seed(0), requires_grad=True)
    loss = criterion(logits, torch.tensor([0, 1, 1, NO_LABEL]))
    torch.testing.assert_close(loss * 4, criterion(logits[:3], torch.tensor([0, 1, 1])) * 3)
    loss.backward()
    assert logits.grad is not None
    assert logits.grad[3].abs().sum() == 0


def test_texts_are_drawn_anew_for_every_epoch():
    rows = tiny("bert").rows(some_texts(3))
    texts = Examples(rows, [0, 1, 1], lambda place, epoch: rows[(place + epoch) % 3])
    assert texts[0].row is rows[0]
    texts.set_epoch(1)
    assert texts[0].row is rows[1]
    assert (texts[2].label, texts[2].place) == (1, 2)
