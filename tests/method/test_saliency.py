from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from rsmi.method.encoder import evaluating, open_encoder
from rsmi.method.noise import NoisePlan, noisy, noisy_logits, row_noise
from rsmi.method.saliency import embedding_gradient
from rsmi.seeds import derive, generator
from tiny import ENCODER_DECODERS, FAMILIES, is_t5, own_ids, some_texts

ALL = pytest.mark.parametrize("family", FAMILIES)
PLAN = NoisePlan((0, 2), 0.4)


def noise_for(batch, samples=1):
    lengths = batch.repeat(samples).lengths
    return row_noise([derive("saliency", i) for i in range(len(lengths))], lengths)


@ALL
@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("gold", [True, False])
def test_the_gradient_is_the_slope_of_the_loss(family, samples, gold, tiny_of):
    t = tiny_of(family, 3)
    model = deepcopy(t.model).double()
    encoder = open_encoder(model)
    batch = t.smoothed().batch(t.rows(some_texts(3, 2, 6)))
    source = noise_for(batch, samples)
    gold_labels = torch.tensor([2, 0, 1])
    gradient = embedding_gradient(encoder, PLAN, batch, source, samples, gold_labels if gold else None).gradient

    renamed, table, entries = own_ids(model, batch)
    copies = renamed.repeat(samples)
    inputs = {"input_ids": copies.input_ids, "attention_mask": copies.attention_mask}
    if encoder.uses_segments:
        inputs["token_type_ids"] = copies.token_type_ids

    def probabilities():
        """Mean over the noise draws, in double precision and by the plain formula: (batch, classes)."""
        with torch.no_grad(), noisy(encoder.layers, PLAN, source):
            return model(**inputs).logits.softmax(-1).view(3, samples, 3).mean(1)

    labels = gold_labels if gold else probabilities().argmax(-1)
    # T5 and ModernBERT compute norms or rotations in float32 whatever the model's type: a coarser step, a finer formula
    coarse = is_t5(family) or family == "modernbert"
    step = 2e-3 if coarse else 1e-4
    stencil = {1: 8 / 12, -1: -8 / 12, 2: -1 / 12, -2: 1 / 12} if coarse else {1: 1 / 2, -1: -1 / 2}
    direction = torch.randn(gradient.shape, generator=generator(1)).double()
    for token in range(batch.input_ids.shape[1]):
        slope = torch.zeros(3).double()
        unmoved = table[entries[:, token]].clone()
        for place, weight in stencil.items():
            table.data[entries[:, token]] = unmoved + place * step * direction[:, token]
            slope -= weight / step * probabilities().gather(1, labels.unsqueeze(1)).squeeze(1).log()
        table.data[entries[:, token]] = unmoved
        along = (gradient[:, token].double() * direction[:, token]).sum(-1)
        free = batch.maskable[:, token]
        tolerance = {"rtol": 5e-3, "atol": 5e-3} if coarse else {"rtol": 1e-3, "atol": 1e-5}
        torch.testing.assert_close(along[free], slope[free], **tolerance)
    assert gradient.abs().max() > 1e-3


@pytest.mark.parametrize("family", ENCODER_DECODERS)
def test_the_decoders_path_is_part_of_the_gradient(family, tiny_of):
    """Against autograd on each stack's own table: encoder and decoder both contribute."""
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(["good film was bad"]))
    outputs = []

    def catch(_table, _args, output):
        leaf = output.detach().requires_grad_()
        outputs.append(leaf)
        return leaf

    handles = [table.register_forward_hook(catch) for table in t.encoder.embeddings]
    logits = t.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).logits
    encoder_part, decoder_part = torch.autograd.grad(-logits.log_softmax(-1).max(), outputs)
    for handle in handles:
        handle.remove()
    decoder_part = torch.cat([decoder_part[:, 1:], torch.zeros_like(decoder_part[:, :1])], 1)
    gradient = embedding_gradient(t.encoder, NoisePlan((0,), 0.0), batch, noise_for(batch)).gradient
    torch.testing.assert_close(gradient, encoder_part + decoder_part, rtol=1e-4, atol=1e-6)
    assert decoder_part.abs().max() > 1e-3


def test_the_gradient_averages_probabilities_inside_the_logarithm(tiny_of):
    t = tiny_of("bert")
    batch = t.smoothed().batch(t.rows(["good film was bad"]))
    source = noise_for(batch, 4)
    shift = torch.zeros(1, *batch.input_ids.shape[1:], 32, requires_grad=True)
    logits = noisy_logits(t.encoder, PLAN, batch.repeat(4), source, shift.repeat(4, 1, 1))
    loss = -(logits.exp() / logits.exp().sum(-1, keepdim=True)).mean(0).max().log()
    (expected,) = torch.autograd.grad(loss, shift)
    got = embedding_gradient(t.encoder, PLAN, batch, source, 4).gradient
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-6)


@ALL
def test_saliency_is_the_norm_at_maskable_tokens_and_zero_elsewhere(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(some_texts(4)))
    result = embedding_gradient(t.encoder, PLAN, batch, noise_for(batch))
    saliency = result.saliency(batch.maskable)
    assert saliency.shape == batch.input_ids.shape
    assert saliency[~batch.maskable].eq(0).all()
    assert saliency[batch.maskable].gt(0).all()
    norms = result.gradient.square().sum(-1).sqrt()
    torch.testing.assert_close(saliency[batch.maskable], norms[batch.maskable])


@ALL
def test_padding_gets_no_gradient(family, tiny_of):
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(["good", " ".join(["bad"] * 12)]))
    gradient = embedding_gradient(t.encoder, PLAN, batch, noise_for(batch)).gradient
    assert gradient[batch.attention_mask == 0].abs().max() < 1e-7


@ALL
@pytest.mark.parametrize("samples", [1, 2])
def test_the_gradient_of_a_row_does_not_depend_on_the_batch(family, samples, tiny_of):
    t = tiny_of(family)
    rows = t.rows(some_texts(5))
    smoothed = t.smoothed()
    keys = [[derive(i, draw) for draw in range(samples)] for i in range(5)]

    def gradient(indices):
        batch = smoothed.batch([rows[i] for i in indices])
        source = row_noise([k for i in indices for k in keys[i]], batch.repeat(samples).lengths)
        return embedding_gradient(t.encoder, PLAN, batch, source, samples).gradient

    together = gradient(range(5))
    for i, row in enumerate(rows):
        alone = gradient([i])[0]
        torch.testing.assert_close(together[i, : len(row)], alone, rtol=1e-3, atol=1e-5)


@ALL
def test_parameters_keep_their_gradients_and_modules_their_modes(family, tiny_of):
    t = tiny_of(family)
    model = deepcopy(t.model)
    encoder = open_encoder(model)
    batch = t.smoothed().batch(t.rows(some_texts(2)))
    model.train()
    frozen = next(module for module in model.modules() if isinstance(module, torch.nn.Dropout))
    frozen.eval()  # a mixed mode, as when a user freezes a part
    kept = {}
    for i, (name, parameter) in enumerate(model.named_parameters()):
        if i % 2:
            parameter.grad = kept[name] = torch.full_like(parameter, float(i))
    modes = [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    got = embedding_gradient(encoder, PLAN, batch, noise_for(batch)).gradient
    for i, (name, parameter) in enumerate(model.named_parameters()):
        assert parameter.requires_grad
        if i % 2:
            assert parameter.grad is kept[name]
            assert parameter.grad.eq(float(i)).all()
        else:
            assert parameter.grad is None
    assert [module.training for module in model.modules()] == modes
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    # dropout was off: the same as from the model in eval mode
    torch.testing.assert_close(got, embedding_gradient(t.encoder, PLAN, batch, noise_for(batch)).gradient)


def test_modes_are_restored_after_an_error(tiny_of):
    model = deepcopy(tiny_of("bert").model).train()

    def stop():
        assert not any(module.training for module in model.modules())
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"), evaluating(model):
        stop()
    assert all(module.training for module in model.modules())


@ALL
def test_no_parameter_gradient_is_computed(family, tiny_of):
    """The backward pass costs about a forward pass; with parameter gradients it would cost two."""
    t = tiny_of(family)
    batch = t.smoothed().batch(t.rows(some_texts(4)))

    def flops(run):
        with FlopCounterMode(display=False) as counter:
            run()
        return counter.get_total_flops()

    source = noise_for(batch)
    forward = flops(lambda: noisy_logits(t.encoder, PLAN, batch, source))
    whole = flops(lambda: embedding_gradient(t.encoder, PLAN, batch, source))
    trained = deepcopy(t.model)
    full = flops(lambda: open_encoder(trained).logits(batch).sum().backward())
    backward, full_backward = whole - forward, full - flops(lambda: t.encoder.logits(batch))
    assert 0.9 * forward < backward < 1.3 * forward
    assert full_backward > 1.7 * forward


@ALL
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_it_works_where_the_caller_has_gradients_off(family, mode, tiny_of):
    t = tiny_of(family)
    rows = t.rows(some_texts(3))
    smoothed = t.smoothed()
    batch = smoothed.batch(rows)
    expected = embedding_gradient(t.encoder, PLAN, batch, noise_for(batch)).gradient
    with mode():
        inside = smoothed.batch(rows)
        got = embedding_gradient(t.encoder, PLAN, inside, noise_for(inside)).gradient
        assert not torch.is_grad_enabled()
    torch.testing.assert_close(got, expected)


def test_a_frozen_model_has_saliency_too(tiny_of):
    t = tiny_of("bert")
    model = deepcopy(t.model).requires_grad_(False)
    batch = t.smoothed().batch(t.rows(some_texts(3)))
    got = embedding_gradient(open_encoder(model), PLAN, batch, noise_for(batch)).gradient
    torch.testing.assert_close(got, embedding_gradient(t.encoder, PLAN, batch, noise_for(batch)).gradient)
    assert math.isfinite(got.sum().item())
