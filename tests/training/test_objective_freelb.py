"""FreeLB's training step against a naive one written from its paper, and against fine-tuning where they must agree."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
import torch
from torch.nn.functional import cross_entropy

from rsmi.method.encoder import Encoder
from rsmi.method.tokens import collate
from rsmi.seeds import derive, generator
from rsmi.training.objective import Step
from rsmi.training.objective_finetune import FinetuneObjective
from rsmi.training.objective_freelb import FreelbObjective
from tiny import FAMILIES, some_texts, tiny

KEY = 5
GOLD = torch.tensor([0, 1, 1, 0, 1])
TEXTS = some_texts(5, shortest=2)


def _fresh(family="bert", dropout=0.0):
    own = tiny(family, dropout=dropout)
    own.model.train()
    own.model.zero_grad(set_to_none=True)
    return own


def _batch(own):
    return collate(own.rows(TEXTS), own.tokenizer.pad_token_id)


def _run(objective, batch):
    """-> loss and gradients of one step, dropout drawn from a fixed state."""
    with torch.random.fork_rng(), ExitStack() as stack:
        torch.set_rng_state(generator(3).get_state())
        model = objective.encoder.model
        loss = objective.loss(Step(model, batch, GOLD, KEY, cross_entropy, stack, lambda part: part.backward()))
        loss.backward()
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), grads


def _same(one, two, **tolerance):
    assert one.keys() == two.keys()
    for name, grad in one.items():
        torch.testing.assert_close(two[name], grad, **tolerance)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("steps", [1, 3])
def test_without_a_ball_it_is_fine_tuning_under_one_dropout_mask(family, steps):
    plain, moved = _fresh(family, dropout=0.2), _fresh(family, dropout=0.2)
    for own in (plain, moved):
        own.model.double()  # in float32 sums differ by more than the tolerance on some processors
    loss, grads = _run(FinetuneObjective(plain.encoder), _batch(plain))
    lb_loss, lb_grads = _run(FreelbObjective(moved.encoder, steps, 0.1, 0.0, 0.1), _batch(moved))
    torch.testing.assert_close(lb_loss, loss)
    _same(grads, lb_grads, rtol=1e-3, atol=1e-6)


def test_dropout_matters_in_that_comparison():
    plain, moved = _fresh(dropout=0.2), _fresh(dropout=0.0)
    loss, _ = _run(FinetuneObjective(plain.encoder), _batch(plain))
    other, _ = _run(FreelbObjective(moved.encoder, 1, 0.1, 0.0, 0.1), _batch(moved))
    assert abs(loss - other) > 1e-3


def test_loss_and_gradients_are_those_of_a_naive_loop():
    steps, size, radius, start = 3, 0.5, 0.8, 0.3
    own, reference = _fresh(), _fresh()
    batch = _batch(own)
    loss, grads = _run(FreelbObjective(own.encoder, steps, size, radius, start), batch)

    words = reference.model.bert.embeddings.word_embeddings
    width = words.embedding_dim
    drawn = torch.rand((*batch.input_ids.shape, width), generator=generator(derive(KEY, "start"))) * 2 - 1
    delta = torch.zeros_like(drawn)
    for i, length in enumerate(batch.lengths):
        delta[i, :length] = drawn[i, :length] * start / (length * width) ** 0.5
    total = 0.0
    for _ in range(steps):
        delta = delta.detach().requires_grad_()
        logits = reference.model(
            inputs_embeds=words(batch.input_ids) + delta, attention_mask=batch.attention_mask
        ).logits
        part = cross_entropy(logits, GOLD) / steps
        part.backward()
        total += part.item()
        moved = []
        for own_delta, gradient in zip(delta.detach(), delta.grad, strict=True):
            stepped = own_delta + size * gradient / gradient.norm()
            moved.append(stepped * min(1.0, radius / stepped.norm().item()))
        delta = torch.stack(moved)
    assert loss.item() == pytest.approx(total, rel=1e-5)
    expected = {name: p.grad for name, p in reference.model.named_parameters() if p.grad is not None}
    _same(expected, grads, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
def test_the_ascent_stays_in_the_ball_raises_the_loss_and_leaves_padding_alone(family, monkeypatch):
    own = _fresh(family)
    batch = _batch(own)
    shifts, original = [], Encoder.logits

    def spy(self, batch, shift=None, model=None):
        shifts.append(shift.detach().clone())
        return original(self, batch, shift, model)

    monkeypatch.setattr(Encoder, "logits", spy)
    _run(FreelbObjective(own.encoder, 4, 0.05, 0.12, 0.05), batch)
    monkeypatch.undo()
    assert len(shifts) == 4
    losses = [cross_entropy(own.encoder.logits(batch, shift), GOLD).item() for shift in shifts]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0]
    for shift in shifts:
        assert (shift.flatten(1).norm(dim=1) <= 0.12 + 1e-5).all()
        assert not shift[batch.attention_mask == 0].any()
    torch.testing.assert_close(shifts[-1].flatten(1).norm(dim=1), torch.full((5,), 0.12))
