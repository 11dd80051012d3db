"""InfoBERT's parts against loops written from its formulas, and a whole step against a naive one."""

from __future__ import annotations

import math
from contextlib import ExitStack
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, relu, softplus

from rsmi.method.tokens import Batch, collate
from rsmi.seeds import derive, generator
from rsmi.training import objective_infobert as infobert
from rsmi.training.objective import Step
from rsmi.training.objective_finetune import FinetuneObjective, plain_logits
from rsmi.training.objective_freelb import FreelbObjective
from tiny import FAMILIES, is_t5, some_texts, tiny

KEY = 5
GOLD = torch.tensor([0, 1, 1, 0, 1])
TEXTS = some_texts(5, shortest=2)
SETTINGS = {"ascent_steps": 3, "step_size": 0.5, "radius": 0.8, "initial_size": 0.3}
WEIGHTS = {"bottleneck_weight": 0.01, "anchor_weight": 0.3}


def _fresh(family="bert", dropout=0.0):
    own = tiny(family, dropout=dropout)
    own.model.train()
    return own


def _batch(own, texts=TEXTS):
    return collate(own.rows(texts), own.tokenizer.pad_token_id)


def _widened(own):
    """The same batch, padded for a longer text that is not in it."""
    whole = _batch(own, [*TEXTS, "good " * 20])
    assert whole.lengths[-1] > max(whole.lengths[:-1])
    types = None if whole.token_type_ids is None else whole.token_type_ids[:-1]
    return Batch(whole.input_ids[:-1], whole.attention_mask[:-1], types, whole.maskable[:-1], whole.lengths[:-1])


def _infobert(own, key=7, **changes):
    settings = {**SETTINGS, **WEIGHTS, "anchor_low": 0.5, "anchor_high": 0.9, **changes}
    return infobert.InfobertObjective(own.encoder, **settings, key=key)


def _run(objective, batch, model=None, key=KEY, criterion=cross_entropy):
    """-> loss and gradients of one step, the critic's too, dropout drawn from a fixed state."""
    own = objective.encoder.model
    with torch.random.fork_rng(), ExitStack() as stack:
        torch.set_rng_state(generator(3).get_state())
        gold = GOLD[: len(batch.lengths)]
        loss = objective.loss(Step(model or own, batch, gold, key, criterion, stack, lambda part: part.backward()))
        loss.backward()
    named = [*own.named_parameters()]
    named += [(f"{name}.{n}", p) for name, module in objective.modules.items() for n, p in module.named_parameters()]
    return loss.detach(), {name: p.grad.clone() for name, p in named if p.grad is not None}


def _same(one, two, **tolerance):
    assert one.keys() == two.keys()
    for name, grad in one.items():
        torch.testing.assert_close(two[name], grad, msg=lambda m, name=name: f"{name}: {m}", **tolerance)


def _drawn(*shape):
    return torch.randn(shape, generator=generator(derive(KEY, *shape)))


def _concatenated(critic, word, text):
    """The authors' critic: one network on the two vectors side by side."""
    joined = torch.cat([critic.words.weight, critic.texts.weight], dim=1)
    inner = relu(joined @ torch.cat([word, text]) + critic.words.bias)
    return softplus(critic.score.weight[0] @ inner + critic.score.bias[0])


def _looped_bound(critic, words, texts):
    total = 0.0
    for i, text in enumerate(texts):
        all_scores = [_concatenated(critic, word, text) for word in words]
        total = total + all_scores[i] - torch.log(sum(torch.exp(score) for score in all_scores) / len(words))
    return total / len(texts)


def _looped_anchors(norms, low, high):
    order = sorted(range(len(norms)), key=lambda i: norms[i])
    chosen = [token for rank, token in enumerate(order) if math.ceil(len(norms) * low) <= rank < len(norms) * high]
    return chosen or [order[min(math.ceil(len(norms) * low), len(norms) - 1)]]


def test_the_bottleneck_is_half_the_mean_squared_distance_of_random_pairs():
    words = _drawn(9, 4)
    pairs = torch.randint(9, (9,), generator=generator(1)).tolist()
    assert len(set(pairs)) < 9  # drawn with replacement, as CLUB does
    expected = sum((words[i, k] - words[j, k]).item() ** 2 / 2 for i, j in enumerate(pairs) for k in range(4)) / 9
    assert infobert.word_information(words, generator(1)).item() == pytest.approx(expected, rel=1e-5)


def test_infonce_with_the_critic_is_that_of_the_concatenation_by_loops():
    critic, words, texts = infobert.Critic(6, 1), _drawn(5, 6), _drawn(5, 6) * 2 + 1
    bound = infobert.info_nce(critic(words, texts))
    torch.testing.assert_close(bound, _looped_bound(critic, words, texts))
    assert abs(bound - infobert.info_nce(critic(words, texts).T)) > 1e-6  # the sides are not exchanged


def test_pairs_are_told_apart_a_few_at_a_time_in_random_order():
    critic, words, texts = infobert.Critic(6, 1), _drawn(7, 6), _drawn(7, 6) * 2 + 1
    order = torch.randperm(7, generator=generator(4)).tolist()
    parts = [order[:3], order[3:6], order[6:]]
    bounds = [_looped_bound(critic, words[part], texts[part]) for part in parts]
    assert bounds[-1].item() == pytest.approx(0.0, abs=1e-6)  # alone, nothing to be told from
    torch.testing.assert_close(infobert.shared_information(critic, words, texts, 3, generator(4)), sum(bounds) / 3)


def test_anchors_lie_between_the_quantiles():
    norms = [
        [5.0, 1.0, 9.0, 3.0, 8.0, 2.0, 7.0, 4.0, 10.0, 6.0],
        [3.0, 1.0, 2.0, 0, 0, 0, 0, 0, 0, 0],
        [2.0, 1.0, 99.0, 0, 0, 0, 0, 0, 0, 0],
        [4.0, 99.0, 0, 0, 0, 0, 0, 0, 0, 0],
        [1.0, 2.0, 5.0, 4.0, 3.0, 0, 0, 0, 0, 0],
    ]
    gradient = torch.tensor(norms).unsqueeze(-1) * torch.tensor([0.6, -0.8])  # a norm, not a sum or a maximum
    rows, places = infobert.anchors(gradient, (10, 3, 2, 1, 5), 0.5, 0.9)
    found = [places[rows == row].tolist() for row in range(5)]
    assert found == [[9, 6, 4, 2], [0], [0], [0], [3, 2]]
    assert infobert.anchors(gradient[:1], (10,), 0.0, 0.2)[1].tolist() == [1, 5]
    assert infobert.anchors(gradient[:1], (10,), 1.0, 1.0)[1].tolist() == [8]  # an empty range still gives one


@pytest.mark.parametrize("family", FAMILIES)
def test_both_ends_of_the_layers_are_those_transformers_reports(family):
    own = tiny(family)
    batch = _batch(own)
    with infobert.captured_hidden(own.encoder) as hidden:
        own.encoder.logits(batch)
    words, *_, last = hidden
    own.encoder.logits(batch)
    assert hidden[-1] is last  # the hooks are gone
    base = own.model.base_model.encoder if is_t5(family) else own.model.base_model
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    if own.encoder.uses_segments:
        inputs["token_type_ids"] = batch.token_type_ids
    reported = base(**inputs, output_hidden_states=True).hidden_states
    norms = {"modernbert": "final_norm"} | {name: "final_layer_norm" for name in FAMILIES if is_t5(name)}
    norm = getattr(base, norms[family]) if family in norms else nn.Identity()  # they report what follows it
    real = batch.attention_mask.bool()
    torch.testing.assert_close(words[real], reported[0][real])
    torch.testing.assert_close(norm(last)[real], reported[-1][real])


@pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
def test_a_text_is_its_first_special_token_or_the_mean_over_its_tokens(family):
    own = tiny(family)
    batch = _batch(own)
    last = _drawn(*batch.input_ids.shape, 4)
    for row, (state, length) in enumerate(zip(infobert.text_states(last, batch), batch.lengths, strict=True)):
        expected = sum(last[row, i] for i in range(length)) / length if family == "t5" else last[row, 0]
        torch.testing.assert_close(state, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_ball_and_weights_it_is_fine_tuning_under_one_dropout_mask(family):
    plain, moved = _fresh(family, dropout=0.2), _fresh(family, dropout=0.2)
    for own in (plain, moved):
        own.model.double()  # in float32 sums differ by more than the tolerance on some processors
    loss, grads = _run(FinetuneObjective(plain.encoder), _batch(plain))
    objective = _infobert(moved, radius=0.0, bottleneck_weight=0.0, anchor_weight=0.0)
    own_loss, own_grads = _run(objective, _batch(moved))
    torch.testing.assert_close(own_loss, loss)
    _same(grads, own_grads, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", ["bert", "albert", "t5"])
def test_without_weights_it_is_freelb_to_the_last_bit(family):
    one, two = _fresh(family, dropout=0.2), _fresh(family, dropout=0.2)
    loss, grads = _run(FreelbObjective(one.encoder, *SETTINGS.values()), _batch(one))
    objective = _infobert(two, bottleneck_weight=0.0, anchor_weight=0.0)
    assert not objective.modules
    own_loss, own_grads = _run(objective, _batch(two))
    assert own_loss == loss
    _same(grads, own_grads, rtol=0, atol=0)


@pytest.mark.parametrize(("beta", "alpha"), [(0.01, 0.3), (0.01, 0.0), (0.0, 0.3)])
def test_loss_and_gradients_are_those_of_a_naive_loop(beta, alpha):
    own, reference = _fresh(), _fresh()
    batch = _batch(own)
    loss, grads = _run(_infobert(own, bottleneck_weight=beta, anchor_weight=alpha), batch)

    steps, size, radius, start = SETTINGS.values()
    critic = _infobert(reference).critic
    table, rng = reference.model.bert.embeddings.word_embeddings, generator(derive(KEY, "pairs"))
    drawn = torch.rand((*batch.input_ids.shape, 32), generator=generator(derive(KEY, "start"))) * 2 - 1
    delta = torch.zeros_like(drawn)
    for i, length in enumerate(batch.lengths):
        delta[i, :length] = drawn[i, :length] * start / (length * 32) ** 0.5
    total = 0.0
    for _ in range(steps):
        delta = delta.detach().requires_grad_()
        inputs = {"attention_mask": batch.attention_mask, "inputs_embeds": table(batch.input_ids) + delta}
        output = reference.model(**inputs, output_hidden_states=True)
        embedded, last = output.hidden_states[0], output.hidden_states[-1]
        part = cross_entropy(output.logits, GOLD)
        if beta:
            words = torch.cat([embedded[i, :length] for i, length in enumerate(batch.lengths)])
            other = words[torch.randint(len(words), (len(words),), generator=rng)]
            part = part + beta * ((words - other) ** 2).sum() / 2 / len(words)
        (part / steps).backward(retain_graph=True)
        total += part.item() / steps
        climbed = delta.grad.clone()  # before the anchors' term
        if alpha:
            norms = [climbed[i, :length].norm(dim=-1).tolist() for i, length in enumerate(batch.lengths)]
            pairs = [(i, place) for i, own_norms in enumerate(norms) for place in _looped_anchors(own_norms, 0.5, 0.9)]
            pairs = [pairs[i] for i in torch.randperm(len(pairs), generator=rng)]
            parts = [pairs[first : first + 5] for first in range(0, len(pairs), 5)]
            bounds = [_looped_bound(critic, [embedded[at] for at in s], [last[i, 0] for i, _ in s]) for s in parts]
            regulariser = -alpha * sum(bounds) / len(bounds) / steps
            regulariser.backward()
            total += regulariser.item()
        stepped = [own_delta + size * own / own.norm() for own_delta, own in zip(delta.detach(), climbed, strict=True)]
        delta = torch.stack([own_delta * min(1.0, radius / own_delta.norm().item()) for own_delta in stepped])
    assert loss.item() == pytest.approx(total, rel=1e-5)
    expected = {name: p.grad for name, p in reference.model.named_parameters() if p.grad is not None}
    if alpha:
        expected |= {f"critic.{name}": p.grad for name, p in critic.named_parameters()}
    _same(expected, grads, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gives_finite_losses_and_trains_model_and_critic(family):
    own = _fresh(family, dropout=0.1)
    loss, grads = _run(_infobert(own), _batch(own))
    freelb, _ = _run(_infobert(own, bottleneck_weight=0.0, anchor_weight=0.0), _batch(own))
    assert loss.isfinite()
    assert abs(loss - freelb) > 1e-4
    assert all(grad.isfinite().all() for grad in grads.values())
    assert sum(name.startswith("critic.") and bool(grad.any()) for name, grad in grads.items()) == 5


@pytest.mark.parametrize(("term", "deep"), [("bottleneck_weight", False), ("anchor_weight", True)])
def test_each_term_alone_reaches_what_it_should(term, deep):
    own = _fresh()
    changes = {name: float(name == term) for name in WEIGHTS}
    _, grads = _run(_infobert(own, **changes), _batch(own), criterion=lambda logits, _labels: logits.sum() * 0)
    assert grads["bert.embeddings.word_embeddings.weight"].any()
    assert grads["bert.encoder.layer.3.output.dense.weight"].any() == deep  # words stand before the layers, texts after
    assert ("critic.score.weight" in grads) == deep


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "t5"])
def test_padding_changes_nothing(family):
    def run(batch_of):
        own = _fresh(family)
        own.model.double()  # rounding in float32 may switch a ReLU of the critic, depending on the number of threads
        return _run(_infobert(own, initial_size=0.0), batch_of(own))

    (loss, grads), (wide_loss, wide_grads) = run(_batch), run(_widened)
    torch.testing.assert_close(wide_loss, loss)
    _same(grads, wide_grads, rtol=1e-3, atol=1e-4)


def test_the_same_key_gives_the_same_step_and_another_key_another():
    results = []
    for step_key, own_key in [(KEY, 7), (KEY, 7), (KEY + 1, 7), (KEY, 8)]:
        own = _fresh(dropout=0.2)
        state = torch.get_rng_state()
        objective = _infobert(own, key=own_key, initial_size=0.0)  # only the pairs are left to the step's key
        assert torch.equal(torch.get_rng_state(), state)
        results.append(_run(objective, _batch(own), key=step_key))
    assert results[0][0] == results[1][0]
    _same(results[0][1], results[1][1], rtol=0, atol=0)
    assert len({loss.item() for loss, _ in results}) == 3


def test_one_short_text_alone_is_enough():
    own = _fresh()
    batch = _batch(own, ["good"])
    loss, _ = _run(_infobert(own, bottleneck_weight=0.0), batch)
    own.model.zero_grad(set_to_none=True)
    freelb, _ = _run(FreelbObjective(own.encoder, *SETTINGS.values()), batch)
    torch.testing.assert_close(loss, freelb)  # no other text to tell its words from: the anchors' term is 0


def test_passes_go_through_the_wrapped_model_and_checkpointed_layers_change_nothing():
    plain, other = _fresh(dropout=0.2), _fresh(dropout=0.2)
    loss, grads = _run(_infobert(plain), _batch(plain))
    other.model.gradient_checkpointing_enable({"use_reentrant": False})
    wrapped = Mock(side_effect=other.model)
    own_loss, own_grads = _run(_infobert(other), _batch(other), wrapped)
    assert wrapped.call_count == SETTINGS["ascent_steps"]
    torch.testing.assert_close(own_loss, loss)
    _same(grads, own_grads, rtol=1e-4, atol=1e-6)


def test_an_epoch_is_judged_by_plain_logits():
    own = _fresh(dropout=0.2)
    batch = _batch(own)
    assert torch.equal(_infobert(own).dev_logits(batch, KEY), plain_logits(own.encoder, batch))
