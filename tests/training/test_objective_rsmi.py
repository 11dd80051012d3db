"""RSMI's training step against a naive one written from the paper, one text at a time."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from rsmi.method.noise import EMBEDDINGS, NoisePlan, batch_noise
from rsmi.method.tokens import collate, mask_token_id
from rsmi.seeds import derive
from rsmi.training.objective import Step
from rsmi.training.objective_finetune import FinetuneObjective
from rsmi.training.objective_rsmi import RsmiObjective
from tiny import FAMILIES, some_texts, tiny

KEY = 11
TEXTS = some_texts(6, shortest=4)
GOLD = torch.tensor([0, 1, 1, 0, 1, 0])
LAYER_PATHS = {"bert": "bert.encoder.layer", "roberta": "roberta.encoder.layer", "electra": "electra.encoder.layer"}


def _objective(own, std=0.4, masking="gradient", step=1.0, batch_size=6, samples=1, embedding_std=0.0, masks=2):
    return RsmiObjective(
        own.encoder,
        NoisePlan((0, 2), std, embedding_std),
        masking=masking,
        num_masks=masks,
        mask_token_id=mask_token_id(own.tokenizer),
        saliency_samples=samples,
        embedding_step=step,
        batch_size=batch_size,
    )


def _batch(own, texts=TEXTS):
    return collate(own.rows(texts), own.tokenizer.pad_token_id)


def _loss(objective, batch, labels, key=KEY):
    with ExitStack() as stack:
        step = Step(objective.encoder.model, batch, labels, key, cross_entropy, stack, lambda loss: loss.backward())
        loss = objective.loss(step)
        loss.backward()
    return loss.detach()


def _grads(model):
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _fresh(family="bert", dropout=0.0, train=True):
    own = tiny(family, dropout=dropout)
    own.model.train(train)
    own.model.zero_grad(set_to_none=True)
    return own


def _naive_logits(own, family, batch, embeds, key):
    """A forward pass from word embeddings, with the noise of `key` added after layers 0 and 2."""
    draw = batch_noise(key, torch.device("cpu"))
    layers = own.model.get_submodule(LAYER_PATHS[family])

    def add(number):
        def hook(_module, _args, output):
            hidden = output[0] if isinstance(output, tuple) else output
            changed = hidden + 0.4 * draw(number, hidden.shape)
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        return hook

    handles = [layers[number].register_forward_hook(add(number)) for number in (0, 2)]
    try:
        inputs = {"inputs_embeds": embeds, "attention_mask": batch.attention_mask}
        if family == "roberta":  # its own positions follow the ids, which inputs_embeds hides
            seen = batch.attention_mask
            inputs["position_ids"] = seen.cumsum(1) * seen + own.tokenizer.pad_token_id
        return own.model(**inputs).logits
    finally:
        for handle in handles:
            handle.remove()


@pytest.mark.parametrize("family", LAYER_PATHS)
def test_the_step_is_algorithm_1(family):
    own = _fresh(family)
    batch, step, size, masks = _batch(own), 3.0, 24, 2
    loss = _loss(_objective(own, step=step, batch_size=size, masks=masks), batch, GOLD)
    found = _grads(own.model)

    own.model.zero_grad(set_to_none=True)
    table = own.model.get_input_embeddings()
    # saliency: gold labels, eval mode, noise on
    own.model.eval()
    embeds = table(batch.input_ids).detach().requires_grad_()
    logits = _naive_logits(own, family, batch, embeds, derive(KEY, "saliency"))
    (gradient,) = torch.autograd.grad(cross_entropy(logits, GOLD, reduction="sum"), embeds)
    own.model.train()
    # the most salient ordinary tokens are masked
    masked = batch.input_ids.clone()
    for row in range(len(TEXTS)):
        free = [i for i in range(masked.shape[1]) if batch.maskable[row, i]]
        for i in sorted(free, key=lambda i: -gradient[row, i].norm().item())[:masks]:
            masked[row, i] = mask_token_id(own.tokenizer)
    # the gradient of the unmasked input, batch mean, is added to the embeddings of the masked ids at every position
    shifted = table(masked) + step / size * gradient
    expected = cross_entropy(_naive_logits(own, family, batch, shifted, derive(KEY, "loss")), GOLD)
    expected.backward()

    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    for name, grad in _grads(own.model).items():
        torch.testing.assert_close(found[name], grad, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_stays_in_train_mode_and_loses_its_hooks(family):
    own = _fresh(family, dropout=0.1)
    _loss(_objective(own), _batch(own), GOLD)
    assert all(module.training for module in own.model.modules())
    assert all(not module._forward_hooks for module in own.model.modules())


def test_a_module_kept_in_eval_mode_stays_there():
    own = _fresh(dropout=0.1)
    frozen = own.model.bert.embeddings
    frozen.eval()
    _loss(_objective(own), _batch(own), GOLD)
    assert not frozen.training
    assert own.model.training


def test_gradients_accumulated_before_are_not_wiped():
    own = _fresh()
    objective, batch = _objective(own), _batch(own)
    _loss(objective, batch, GOLD)
    once = _grads(own.model)
    _loss(objective, batch, GOLD)
    for name, grad in _grads(own.model).items():
        torch.testing.assert_close(grad, 2 * once[name], rtol=1e-4, atol=1e-6)


def test_finding_masks_leaves_no_gradient_on_a_parameter():
    own = _fresh()
    objective = _objective(own)
    objective._gradient(_batch(own), GOLD, KEY)
    objective.dev_logits(_batch(own), KEY)
    assert all(parameter.grad is None for parameter in own.model.parameters())
    assert all(parameter.requires_grad for parameter in own.model.parameters())


@pytest.mark.parametrize("family", FAMILIES)
def test_accumulated_gradients_do_not_depend_on_the_split(family):
    own = _fresh(family)
    objective = _objective(own, std=0.0, step=2.0)
    whole = _loss(objective, _batch(own), GOLD)
    expected = _grads(own.model)
    for size in (1, 2, 3):
        own.model.zero_grad(set_to_none=True)
        losses = [
            _loss(objective, _batch(own, TEXTS[i : i + size]), GOLD[i : i + size]) for i in range(0, len(TEXTS), size)
        ]
        torch.testing.assert_close(torch.stack(losses).mean(), whole, rtol=1e-4, atol=1e-5)
        for name, grad in _grads(own.model).items():
            torch.testing.assert_close(grad / len(losses), expected[name], rtol=5e-3, atol=5e-5)


@pytest.mark.parametrize(
    "family", [family for family in FAMILIES if family not in ("albert", "albert-groups", "mpnet")]
)
def test_gradient_checkpointing_gives_the_same_gradients(family):
    own = _fresh(family)
    objective = _objective(own)
    loss = _loss(objective, _batch(own), GOLD)
    expected = _grads(own.model)
    own.model.zero_grad(set_to_none=True)
    own.model.config.use_cache = False
    own.model.gradient_checkpointing_enable({"use_reentrant": False})
    torch.testing.assert_close(_loss(objective, _batch(own), GOLD), loss)
    for name, grad in _grads(own.model).items():
        torch.testing.assert_close(grad, expected[name], rtol=1e-4, atol=1e-6)


def test_the_step_vanishes_with_embedding_step_0_and_is_not_forgotten_otherwise():
    own = _fresh()
    batch = _batch(own)
    losses = [_loss(_objective(own, step=step), batch, GOLD).item() for step in (0.0, 1e-9, 1.0)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)
    assert abs(losses[2] - losses[0]) > 1e-4


def test_the_shift_goes_up_the_loss():
    own = _fresh()
    batch = _batch(own)
    quiet = [_loss(_objective(own, std=0.0, masking="none", step=step), batch, GOLD).item() for step in (0.0, 0.05)]
    assert quiet[1] > quiet[0]


def test_other_keys_draw_other_noise_and_the_same_key_the_same():
    own = _fresh()
    batch = _batch(own)
    losses = [_loss(_objective(own), batch, GOLD, key).item() for key in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_noise_at_the_embeddings_is_drawn_too():
    own = _fresh()
    batch = _batch(own)
    objective = _objective(own, std=0.0, masking="none", step=0.0, embedding_std=0.3)
    shape = torch.Size([*batch.input_ids.shape, own.encoder.embedding_width])
    noise = 0.3 * batch_noise(derive(KEY, "loss"), torch.device("cpu"))(EMBEDDINGS, shape)
    expected = cross_entropy(own.encoder.logits(batch, noise), GOLD).detach()
    torch.testing.assert_close(_loss(objective, batch, GOLD), expected)


def test_random_masks_take_no_gradient(monkeypatch):
    own = _fresh()
    monkeypatch.setattr("rsmi.training.objective_rsmi.embedding_gradient", None)  # calling it would be an error
    objective = _objective(own, masking="random")
    assert _loss(objective, _batch(own), GOLD).isfinite()
    assert objective.dev_logits(_batch(own), KEY).shape == (6, 2)


def test_without_masks_noise_and_shift_it_is_plain_fine_tuning():
    own = _fresh()
    batch = _batch(own)
    plain = _loss(FinetuneObjective(own.encoder), batch, GOLD)
    expected = _grads(own.model)
    own.model.zero_grad(set_to_none=True)
    torch.testing.assert_close(_loss(_objective(own, std=0.0, masking="none", step=0.0), batch, GOLD), plain)
    for name, grad in _grads(own.model).items():
        torch.testing.assert_close(grad, expected[name])
    torch.testing.assert_close(plain, cross_entropy(own.encoder.logits(batch), GOLD).detach())


@pytest.mark.parametrize("text", ["good", "a film", "it was not so very good , no"])
def test_texts_of_any_length_can_be_trained_on(text):
    own = _fresh()
    objective = _objective(own, masks=4)
    assert _loss(objective, _batch(own, [text, "a long and very dull story of an actor"]), GOLD[:2]).isfinite()
    masked = objective._masked(_batch(own, [text]), objective._gradient(_batch(own, [text]), GOLD[:1], 0), 0)
    words = len(text.split())
    assert int((masked.input_ids == mask_token_id(own.tokenizer)).sum()) == min(4, words)


def test_dev_logits_are_the_same_in_train_mode_and_leave_it():
    own = _fresh(dropout=0.5)
    objective, batch = _objective(own), _batch(own)
    first = objective.dev_logits(batch, KEY)
    assert torch.equal(first, objective.dev_logits(batch, KEY))
    assert own.model.training
    assert not torch.equal(first, replace(objective, masking="none").dev_logits(batch, KEY))
