"""Losses and gradients of the defended model: against its own inference, plain autograd and finite differences."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from keywords import KeywordTarget, TableAttack
from rsmi.attacks.hotflip import HotFlip
from rsmi.attacks.whitebox import GradientView, Margin, Question, cross_entropy, engine_of
from rsmi.config import RsmiConfig
from rsmi.errors import UnsupportedModelError
from rsmi.method.backends import open_runner
from rsmi.method.encoder import open_encoder
from rsmi.method.engine import Engine
from rsmi.method.inference import infer
from rsmi.method.masking import sample_positions
from rsmi.method.noise import row_noise
from rsmi.method.pretrained import Pretrained
from rsmi.method.saliency import embedding_gradient
from rsmi.method.tokens import collate
from rsmi.method.voting import Ballot, Smoothed, collect_votes
from rsmi.seeds import derive, generator
from tiny import FAMILIES, own_ids, some_texts, tiny_model, tiny_tokenizer
from toy import SYNONYMS

ALL = pytest.mark.parametrize("family", FAMILIES)
THREE = pytest.mark.parametrize("family", ["bert", "roberta", "t5"])
TEXT = "a good film with a great plot and a warm cast"
ONE_VOTE = {"first_votes": 1, "two_step": False, "aggregation": "logit-average"}


def config_of(variant="rsmi", **settings):
    own = {"noise_std": 0.4, "noise_layers": 2, "num_masks": 2, "num_candidates": 4, "max_length": 32}
    return replace(RsmiConfig(**own).as_variant(variant), **settings)


def engine(family, config, model=None, token_budget=4096, synonyms=None, backend="torch"):
    model = tiny_model(family) if model is None else model
    loaded = Pretrained(open_encoder(model), tiny_tokenizer(family), new_head=False)
    runner = open_runner(loaded.encoder, backend)
    return Engine(loaded, runner, config, 0, token_budget, synonyms, threading.RLock())


def view(family, config, loss=cross_entropy, **settings):
    return GradientView(engine(family, config, **settings), loss)


def keys(count, name="key"):
    return tuple(derive(name, number) for number in range(count))


def outcome(own: GradientView, text, key):
    """What the defense itself makes of a text under this key."""
    return infer(own.engine.smoothed, own.engine.config, own.engine.encode([text]), [key])[0]


@ALL
def test_without_noise_and_masks_it_is_the_gradient_of_the_plain_model(family):
    own = view(family, config_of("plain"))
    (slope,) = own.slopes([Question(TEXT, 1, keys(1))])
    model = tiny_model(family)
    batch = collate(own.encode([TEXT]), tiny_tokenizer(family).pad_token_id)
    renamed, table, entries = own_ids(model, batch)
    table.requires_grad_()
    inputs = {"input_ids": renamed.input_ids, "attention_mask": renamed.attention_mask}
    if own.encoder.uses_segments:
        inputs["token_type_ids"] = renamed.token_type_ids
    loss = torch.nn.functional.cross_entropy(model(**inputs).logits, torch.tensor([1]))
    (at_table,) = torch.autograd.grad(loss, table)
    free = batch.maskable[0]
    torch.testing.assert_close(slope.losses, loss.detach().reshape(1))
    torch.testing.assert_close(slope.gradient[0][free], at_table[entries[0]][free], rtol=1e-4, atol=1e-6)
    assert slope.gradient[0][free].norm(dim=-1).min() > 0


@THREE
@pytest.mark.parametrize(
    "settings",
    [
        {"variant": "rsmi"},
        {"variant": "rsmi", "saliency_samples": 3},
        {"variant": "rsmi", "embedding_noise_std": 0.5},
        {"variant": "no-mask"},
        {"variant": "rm"},
        {"variant": "gm"},
        {"variant": "plain"},
    ],
    ids=str,
)
@pytest.mark.parametrize("backend", ["torch", "int8"])
def test_a_draw_is_a_copy_that_the_defense_would_classify(family, settings, backend):
    own = view(family, config_of(**{**settings, **ONE_VOTE}), backend=backend)
    (losses,) = own.losses([Question(TEXT, 1, keys(5))])
    expected = [-np.log(outcome(own, TEXT, key).decision.probabilities[1]) for key in keys(5)]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-4, atol=1e-5)
    if settings["variant"] not in ("gm", "plain"):
        assert np.ptp(expected) > 1e-3


@THREE
def test_every_other_draw_is_a_copy_of_step_two_where_there_is_one(family):
    own = view(family, config_of(first_votes=4, second_votes=1, aggregation="logit-average"))
    escalated = 0
    for key in keys(60):
        decision = outcome(own, TEXT, key).decision
        if decision.second_votes is not None:  # then its one vote alone decides
            (losses,) = own.losses([Question(TEXT, 0, (key, key))])
            assert losses[1].item() == pytest.approx(-np.log(decision.probabilities[0]), rel=1e-4, abs=1e-5)
            escalated += 1
        if escalated == 3:
            return
    pytest.fail("expected some votes of step one to be split")


def test_the_sequential_rule_draws_every_mask():
    own = view("bert", config_of(stop="sequential"))
    row = own.encode([TEXT])[0]
    (losses,) = own.losses([Question(TEXT, 1, keys(4))])
    smoothed: Smoothed = own.engine.smoothed
    for key, loss in zip(keys(4), losses.tolist(), strict=True):
        pool = outcome(own, TEXT, key).masks.pool
        masks = tuple(sample_positions(pool, 2, 1, derive(key, "sequential", "masks")))
        (votes,) = collect_votes(smoothed, [Ballot(row, masks, (derive(key, "sequential", 0),))])
        assert loss == pytest.approx(np.log(np.exp(votes.logits[0]).sum()) - votes.logits[0, 1], rel=1e-4)


def test_replaced_words_of_the_defense_are_drawn_too():
    config = config_of("safer", **ONE_VOTE)
    own = view("bert", config, synonyms=SYNONYMS)
    text = "a good film was bad and cold"
    (slope,) = own.slopes([Question(text, 1, keys(6))])
    texts = [text]
    for key, loss in zip(keys(6), slope.losses.tolist(), strict=True):
        redraw = own.engine._redraw(texts)
        decision = infer(own.engine.smoothed, config, own.encode(texts), [key], redraw)[0].decision
        assert loss == pytest.approx(-np.log(decision.probabilities[1]), rel=1e-4)
    assert slope.losses.std() > 1e-3
    assert slope.gradient[:, 1:-1].norm(dim=-1).min() > 0


@THREE
@pytest.mark.parametrize("loss", [cross_entropy, Margin(100.0)], ids=["cross-entropy", "margin"])
def test_the_gradient_is_the_slope_of_the_expected_loss(family, loss):
    own = view(family, config_of("no-mask"), loss, model=deepcopy(tiny_model(family)).double())
    length, draws = len(own.encode([TEXT])[0]), keys(6)
    (slope,) = own.slopes([Question(TEXT, 1, draws)])
    direction = torch.randn(length, own.encoder.embedding_width, generator=generator(1)) / 10
    step = 0.02

    def mean_at(size):
        (losses,) = own.losses([Question(TEXT, 1, draws, (size * direction).repeat(6, 1, 1))])
        return losses.double().mean().item()

    expected = (8 * (mean_at(step) - mean_at(-step)) - (mean_at(2 * step) - mean_at(-2 * step))) / (12 * step)
    assert (slope.gradient.mean(0) * direction).sum().item() == pytest.approx(expected, rel=1e-2, abs=1e-3)


def test_averaging_over_draws_converges():
    own = view("bert", config_of())

    def distance(count):
        one, other = own.slopes([Question(TEXT, 1, keys(count, name)) for name in ("one", "other")])
        difference = (one.gradient.mean(0) - other.gradient.mean(0)).norm()
        return (difference / one.gradient.mean(0).norm()).item()

    # 64 times the draws make independent means about 8 times as alike
    assert distance(512) < distance(8) / 3


@THREE
@pytest.mark.parametrize("variant", ["rsmi", "rm"])
def test_a_hidden_token_gets_the_gradient_at_its_mask(family, variant):
    own = view(family, config_of(variant, two_step=False, noise_std=0.4))
    (key,) = keys(1)
    (slope,) = own.slopes([Question(TEXT, 1, (key,))])
    masks = outcome(own, TEXT, key).masks
    hidden = masks.top or sample_positions(masks.pool, 2, 1, derive(key, "first", "masks"))[0]
    assert len(hidden) == 2
    row = own.encode([TEXT])[0]
    ids = [own.engine.mask_token_id if place in hidden else token for place, token in enumerate(row.ids)]
    batch = collate([replace(row, ids=tuple(ids))], tiny_tokenizer(family).pad_token_id)
    source = row_noise([derive(key, "first", 0)], batch.lengths)
    expected = embedding_gradient(own.encoder, own.engine.plan, batch, source, labels=torch.tensor([1])).gradient
    torch.testing.assert_close(slope.gradient, expected, rtol=1e-4, atol=1e-6)
    assert slope.gradient[0, list(hidden)].norm(dim=-1).min() > 1e-3


def test_what_is_hidden_does_not_reach_the_layers():
    own = view("bert", config_of("rm", noise_std=0.0))
    (key,) = keys(1)
    row = own.encode([TEXT])[0]
    hidden = sample_positions(row.maskable_positions, 2, 1, derive(key, "first", "masks"))[0]
    seen = next(place for place in row.maskable_positions if place not in hidden)

    def loss_with(place):
        shift = torch.zeros(1, len(row), own.encoder.embedding_width)
        shift[0, place] = torch.randn(own.encoder.embedding_width, generator=generator(2))
        return own.losses([Question(TEXT, 1, (key,), shift)])[0].item()

    (unmoved,) = own.losses([Question(TEXT, 1, (key,))])
    assert loss_with(hidden[0]) == pytest.approx(unmoved.item(), abs=1e-6)
    assert abs(loss_with(seen) - unmoved.item()) > 1e-3


@ALL
@pytest.mark.parametrize("variant", ["rsmi", "no-mask"])
def test_embeddings_moved_to_another_word_are_that_word_to_saliency_masks_and_layers(family, variant):
    own = view(family, config_of(variant, embedding_noise_std=0.1))
    before, after = own.encode([TEXT, TEXT.replace("good", "dull").replace("warm", "the")])
    table = own.embeddings
    shift = (table[list(after.ids)] - table[list(before.ids)]).repeat(6, 1, 1)
    assert shift.abs().max() > 0.1
    moved, real = own.losses(
        [Question(TEXT, 1, keys(6), shift), Question("a dull film with a great plot and a the cast", 1, keys(6))]
    )
    torch.testing.assert_close(moved, real, rtol=1e-4, atol=1e-5)


@THREE
def test_an_answer_does_not_depend_on_the_questions_beside_it_or_the_budget(family):
    texts = some_texts(5)
    own = view(family, config_of())
    questions = [Question(text, number % 2, keys(3, text)) for number, text in enumerate(texts)]
    together = own.slopes(questions)
    small = view(family, config_of(), token_budget=12)
    for question, answer in zip(questions, together, strict=True):
        for other in (own.slopes([question])[0], small.slopes([question])[0]):
            torch.testing.assert_close(other.losses, answer.losses, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(other.gradient, answer.gradient, rtol=1e-3, atol=1e-4)
    for losses, answer in zip(own.losses(questions), together, strict=True):
        torch.testing.assert_close(losses, answer.losses, rtol=1e-5, atol=1e-6)


def test_the_same_keys_give_the_same_gradients_and_others_do_not():
    own = view("bert", config_of())
    first, other = own.slopes([Question(TEXT, 1, keys(4, name)) for name in ("first", "other")])
    (again,) = own.slopes([Question(TEXT, 1, keys(4, "first"))])
    torch.testing.assert_close(again.gradient, first.gradient, rtol=1e-3, atol=1e-5)
    assert not torch.allclose(first.gradient, other.gradient, rtol=0.1, atol=1e-2)


@ALL
def test_the_model_is_left_as_it_was(family):
    own = view(family, config_of())
    model = own.encoder.model
    model.train()
    frozen = next(module for module in model.modules() if isinstance(module, torch.nn.Dropout))
    frozen.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    own.slopes([Question(TEXT, 1, keys(2))])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    assert not frozen.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks for module in model.modules())


def test_it_works_inside_inference_mode():
    own = view("bert", config_of())
    (expected,) = own.slopes([Question(TEXT, 1, keys(2))])
    with torch.inference_mode():
        (got,) = own.slopes([Question(TEXT, 1, keys(2), torch.zeros(2, 13, 32)[:, : len(own.encode([TEXT])[0])])])
    torch.testing.assert_close(got.gradient, expected.gradient)


def test_losses_by_hand():
    logits = torch.tensor([[2.0, 1.0, 0.0], [0.0, 5.0, 4.5]])
    golds = torch.tensor([0, 0])
    expected = torch.tensor([np.log(np.exp(2) + np.exp(1) + 1) - 2, np.log(1 + np.exp(5) + np.exp(4.5))])
    torch.testing.assert_close(cross_entropy(logits, golds).double(), expected.double(), rtol=1e-5, atol=1e-6)
    assert Margin(3.0)(logits, golds).tolist() == [-1.0, 3.0]  # the second leads by 5, of which 3 count
    assert Margin(10.0)(logits, golds).tolist() == [-1.0, 5.0]


def test_a_target_that_keeps_its_model_to_itself_is_refused():
    class Empty(KeywordTarget):
        def engine(self, draw=0):
            return None

    for target in (KeywordTarget({}), Empty({})):
        with pytest.raises(UnsupportedModelError, match=r"expected a target that gives its model away .*textfooler"):
            engine_of(target)
        with pytest.raises(UnsupportedModelError, match=type(target).__name__):
            HotFlip(rules=TableAttack({})).run(target, ["a film"], ["pos"])


def test_a_model_that_overflows_is_named_not_ranked():
    model = tiny_model("bert")
    with torch.no_grad():
        model.classifier.weight.fill_(torch.inf)
    with pytest.raises(UnsupportedModelError, match="not finite"):
        view("bert", config_of(), model=model).slopes([Question(TEXT, 1, keys(1))])
