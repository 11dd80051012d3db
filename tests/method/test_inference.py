from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rsmi.method.inference as inference
from rsmi.config import RsmiConfig
from rsmi.method.encoder import noise_positions
from rsmi.method.inference import Detail, Outcome, infer
from rsmi.method.stopping import gate_passes
from rsmi.method.voting import Smoothed
from rsmi.seeds import derive
from tiny import FAMILIES, Tiny, some_texts

ALL = pytest.mark.parametrize("family", FAMILIES)
SMALL = RsmiConfig(noise_std=0.5, noise_layers=2, first_votes=5, second_votes=9)
TEXTS = some_texts(12, 1, 14, seed=2)


def outcomes(
    t: Tiny, config: RsmiConfig, texts=TEXTS, key=0, budget=4096, detail: Detail = "votes", least: int = 1
) -> list[Outcome]:
    class Asking(Smoothed):
        def least_copies(self, tokens: int) -> int:
            return least

    layers = noise_positions(config.noise_layers, t.encoder.num_layers)
    smoothed = t.smoothed(config.noise_std, layers, config.embedding_noise_std, budget)
    smoothed = Asking(**{field.name: getattr(smoothed, field.name) for field in fields(Smoothed)})
    return infer(smoothed, config, t.rows(texts), [derive(key, str(text)) for text in texts], detail=detail)


def same(one: Outcome, two: Outcome) -> bool:
    a, b = one.decision, two.decision
    return (
        a.winner == b.winner
        and a.first_votes.tolist() == b.first_votes.tolist()
        and (a.second_votes is None) == (b.second_votes is None)
        and (a.second_votes is None or a.second_votes.tolist() == b.second_votes.tolist())
        and np.allclose(a.probabilities, b.probabilities, rtol=1e-3, atol=1e-4)
        and one.masks.top == two.masks.top
        and one.masks.pool == two.masks.pool
        and np.allclose(one.masks.saliency, two.masks.saliency, rtol=1e-2, atol=1e-4)
    )


CONFIGS = {
    "rsmi": SMALL,
    "averaged": replace(SMALL, aggregation="logit-average"),
    "samples": replace(SMALL, saliency_samples=3, embedding_noise_std=0.2),
    "no-mask": replace(SMALL, masking="none"),
    "random": replace(SMALL, masking="random"),
    "sequential": replace(SMALL, stop="sequential", stop_confidence=0.8),
}


@pytest.fixture(scope="module")
def whole_of(tiny_of):
    """Name of a configuration -> the outcomes of all texts decided together."""
    return cache(lambda name: outcomes(tiny_of("bert", 3), CONFIGS[name]))


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=15)
@given(data=st.data())
def test_an_outcome_does_not_depend_on_the_rows_around_it(name, data, tiny_of, whole_of):
    t, whole = tiny_of("bert", 3), whole_of(name)
    chosen = data.draw(st.lists(st.sampled_from(range(len(TEXTS))), min_size=1, max_size=6, unique=True))
    budget = data.draw(st.integers(1, 500))
    part = outcomes(t, CONFIGS[name], [TEXTS[i] for i in chosen], budget=budget)
    assert all(same(whole[i], own) for i, own in zip(chosen, part, strict=True))


@ALL
def test_in_every_family_an_outcome_is_the_same_alone(family, tiny_of):
    t = tiny_of(family)
    whole = outcomes(t, SMALL)
    for i in (0, 3, 7):
        assert same(whole[i], outcomes(t, SMALL, [TEXTS[i]])[0])


@ALL
def test_the_two_steps_follow_the_rule(family, tiny_of):
    t = tiny_of(family)
    escalated = 0
    config = replace(SMALL, noise_std=0.25)  # both kinds of text, those that stop and those that go on
    for row, outcome in zip(t.rows(TEXTS), outcomes(t, config), strict=True):
        decision, masks = outcome.decision, outcome.masks
        assert decision.first_votes.sum() == 5
        assert masks.pool[: len(masks.top)] == masks.top
        assert len(masks.pool) == min(5, len(row.maskable_positions))
        assert len(masks.top) == min(2, len(row.maskable_positions))
        order = sorted(row.maskable_positions, key=lambda i: -masks.saliency[i])
        assert masks.pool == tuple(order[:5])
        assert (decision.second_votes is None) == gate_passes(decision.first_votes.max(), 5, 0.98)
        deciding = decision.first_votes if decision.second_votes is None else decision.second_votes
        assert decision.winner == deciding.argmax()
        assert deciding.sum() == (5 if decision.second_votes is None else 9)
        assert decision.probabilities == pytest.approx(deciding / deciding.sum())
        escalated += decision.second_votes is not None
    assert 0 < escalated < len(TEXTS)


def copies_of(monkeypatch) -> list[list]:
    """Record the ballots of every call of `collect_votes`."""
    seen = []
    real = inference.collect_votes

    def spy(smoothed, ballots, prefixes=None):
        seen.append(list(ballots))
        return real(smoothed, ballots, prefixes)

    monkeypatch.setattr(inference, "collect_votes", spy)
    return seen


def test_step_one_masks_the_top_and_step_two_draws_from_the_candidates(monkeypatch, tiny_of):
    seen = copies_of(monkeypatch)
    result = outcomes(tiny_of("bert"), SMALL)
    first, second = seen
    for outcome, ballot in zip(result, first, strict=True):
        assert ballot.masks == (outcome.masks.top,) * 5
    undecided = [outcome for outcome in result if outcome.decision.second_votes is not None]
    drawn = set()
    for outcome, ballot in zip(undecided, second, strict=True):
        for mask in ballot.masks:
            assert len(set(mask)) == len(mask) == min(2, len(outcome.masks.pool))
            assert set(mask) <= set(outcome.masks.pool)
        drawn |= set(ballot.masks)
    assert len(drawn) > 5
    keys = [key for ballot in first + second for key in ballot.keys]
    assert len(set(keys)) == len(keys)  # no noise is ever used twice


def test_saliency_is_computed_once_a_text_and_reused_in_step_two(monkeypatch, tiny_of):
    rows = []
    real = inference.embedding_gradient

    def spy(encoder, plan, batch, source, samples):
        rows.append(len(batch.lengths))
        return real(encoder, plan, batch, source, samples)

    monkeypatch.setattr(inference, "embedding_gradient", spy)
    result = outcomes(tiny_of("bert"), SMALL)
    assert any(outcome.decision.second_votes is not None for outcome in result)
    assert sum(rows) == len(TEXTS)
    assert len(rows) < len(TEXTS) / 2


def forward_calls(t: Tiny, run) -> tuple[int, int]:
    """(forward passes, rows in them)."""
    rows = []
    handle = t.model.classifier.register_forward_pre_hook(lambda _module, args: rows.append(len(args[0])))
    try:
        run()
    finally:
        handle.remove()
    return len(rows), sum(rows)


def test_copies_of_all_texts_share_forward_passes(tiny_of, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)  # with two, every lane makes passes of its own
    t = tiny_of("bert")
    texts = some_texts(60, 3, 12, seed=3)
    result = outcomes(t, SMALL, texts)
    second = sum(outcome.decision.second_votes is not None for outcome in result)
    passes, rows = forward_calls(t, lambda: outcomes(t, SMALL, texts))
    assert rows == 60 + 60 * 5 + second * 9  # nothing is computed that is not voted on
    assert second > 10
    assert passes <= 7  # one for the saliency of all texts, one or two for each step


@pytest.mark.parametrize("name", ["no-mask", "random"])
def test_without_gradient_masks_there_is_no_backward_pass(name, monkeypatch, tiny_of):
    def never(*_args, **_kwargs):
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(inference, "embedding_gradient", never)
    monkeypatch.setattr(torch.autograd, "grad", never)
    t = tiny_of("bert")
    seen = copies_of(monkeypatch)
    result = outcomes(t, CONFIGS[name])
    for row, outcome in zip(t.rows(TEXTS), result, strict=True):
        assert outcome.masks.top == ()
        assert outcome.masks.pool == (row.maskable_positions if name == "random" else ())
        assert not outcome.masks.saliency.any()
    masks = [mask for ballots in seen for ballot in ballots for mask in ballot.masks]
    assert (max(map(len, masks)) == 2) == (name == "random")
    passes, rows = forward_calls(t, lambda: outcomes(t, CONFIGS[name]))
    second = sum(outcome.decision.second_votes is not None for outcome in result)
    assert rows == 12 * 5 + second * 9
    assert passes <= 4


@ALL
@pytest.mark.parametrize("masking", ["gradient", "random"])
def test_short_texts_mask_what_they_can_and_leave_the_settings_alone(family, masking, tiny_of):
    t = tiny_of(family)
    config = replace(SMALL, num_masks=4, num_candidates=5, masking=masking)
    texts = ["good", "good film", "good film was", " ".join(["good"] * 8), " ".join(["bad"] * 10), " ".join(["a"] * 25)]
    for _ in range(2):  # a short text must not shrink the masks of a later one
        sizes = [min(4, len(outcome.masks.pool)) for outcome in outcomes(t, config, texts)]
        assert sizes == [1, 2, 3, 4, 4, 4]
    assert config.num_masks == 4


def test_a_text_without_a_maskable_token_is_classified(tiny_of):
    t = tiny_of("bert")
    (row,) = t.rows(["good"])
    bare = replace(row, ids=(2, 3), type_ids=(0, 0), maskable=(False,) * 2, offsets=((0, 0),) * 2, sequence=(-1, -1))
    for name, config in CONFIGS.items():
        layers = (0, 2)
        (alone,) = infer(t.smoothed(0.5, layers), config, [bare], [1])
        assert alone.masks.top == alone.masks.pool == (), name
        assert alone.decision.first_votes.sum() > 0
        among = infer(t.smoothed(0.5, layers), config, [*t.rows(TEXTS[:3]), bare], [5, 6, 7, 1])
        assert among[3].decision.first_votes.tolist() == alone.decision.first_votes.tolist()


@pytest.mark.parametrize("tokens", [9, 10, 11])
def test_a_text_of_ten_tokens_is_a_text_like_any_other(tokens, tiny_of):
    t = tiny_of("bert")
    text = some_texts(1, tokens - 2, tokens - 2)[0]
    assert len(t.rows([text])[0]) == tokens
    (outcome,) = outcomes(t, SMALL, [text])
    assert len(outcome.masks.top) == 2
    assert len(outcome.masks.pool) == 5


def test_without_two_steps_the_first_vote_decides(tiny_of):
    t = tiny_of("bert")
    config = replace(SMALL, two_step=False)
    for outcome, full in zip(outcomes(t, config), outcomes(t, SMALL), strict=True):
        assert outcome.decision.second_votes is None
        assert outcome.decision.first_votes.tolist() == full.decision.first_votes.tolist()
        assert outcome.decision.winner == outcome.decision.first_votes.argmax()


@ALL
def test_the_plain_variant_is_the_model_itself(family, tiny_of):
    t = tiny_of(family, 3)
    result = outcomes(t, RsmiConfig.variant("plain"))
    batch = t.smoothed().batch(t.rows(TEXTS))
    with torch.no_grad():
        probabilities = t.encoder.logits(batch).softmax(-1).numpy()
    assert [outcome.decision.winner for outcome in result] == probabilities.argmax(1).tolist()
    assert len(set(probabilities.argmax(1))) > 1
    for outcome, own in zip(result, probabilities, strict=True):
        assert outcome.decision.probabilities == pytest.approx(own, rel=1e-3, abs=1e-5)


@ALL
def test_gradient_masking_alone_is_deterministic(family, tiny_of):
    t = tiny_of(family)
    config = RsmiConfig.variant("gm")
    for one, two in zip(outcomes(t, config, key=1), outcomes(t, config, key=2), strict=True):
        assert same(one, two)
        assert one.decision.first_votes.sum() == 1


def test_random_masking_averages_over_masks_without_noise(monkeypatch, tiny_of):
    t = tiny_of("bert")
    config = RsmiConfig.variant("rm", first_votes=7)
    seen = copies_of(monkeypatch)
    one = outcomes(t, config, key=1)
    two = outcomes(t, config, key=2)
    assert len(seen) == 2 or not any(seen[1])
    assert any(
        not np.allclose(a.decision.probabilities, b.decision.probabilities) for a, b in zip(one, two, strict=True)
    )
    long = max(range(len(TEXTS)), key=lambda i: len(TEXTS[i].split()))
    ballot = seen[0][long]
    smoothed = t.smoothed(0.0)
    (votes,) = inference.collect_votes(smoothed, [ballot])
    mean = torch.tensor(votes.logits).mean(0).softmax(-1)
    assert one[long].decision.probabilities == pytest.approx(mean.numpy(), rel=1e-4)
    assert len(set(ballot.masks)) > 1


def test_another_key_draws_other_noise_and_the_same_key_the_same(tiny_of):
    t = tiny_of("bert")
    one, again, other = outcomes(t, SMALL), outcomes(t, SMALL), outcomes(t, SMALL, key=1)
    assert all(same(a, b) for a, b in zip(one, again, strict=True))
    assert not all(same(a, b) for a, b in zip(one, other, strict=True))


def test_averaging_gates_on_votes_and_decides_on_logits(tiny_of):
    t = tiny_of("bert")
    for voted, averaged in zip(outcomes(t, SMALL), outcomes(t, CONFIGS["averaged"]), strict=True):
        assert voted.decision.first_votes.tolist() == averaged.decision.first_votes.tolist()
        assert (voted.decision.second_votes is None) == (averaged.decision.second_votes is None)
        assert averaged.decision.winner == averaged.decision.probabilities.argmax()


def test_the_sequential_rule_votes_no_longer_than_needed(tiny_of):
    t = tiny_of("bert")
    config = replace(SMALL, stop="sequential", stop_confidence=0.9, second_votes=35)
    result = outcomes(t, config)
    totals = [int(outcome.decision.first_votes.sum()) for outcome in result]
    assert max(totals) <= 40
    assert min(totals) < 15
    assert all(outcome.decision.second_votes is None for outcome in result)
    for outcome in result:
        if outcome.decision.winner is not None:
            assert outcome.decision.winner == outcome.decision.first_votes.argmax()
    close = outcomes(t, replace(config, noise_std=30.0), some_texts(10, 5, 9, seed=8))
    assert any(outcome.decision.winner is None for outcome in close)  # votes at random: too close to call


def test_every_mask_of_the_sequential_rule_is_drawn_anew(monkeypatch, tiny_of):
    seen = copies_of(monkeypatch)
    outcomes(tiny_of("bert"), CONFIGS["sequential"], [max(TEXTS, key=len)])
    masks = [mask for ballots in seen for ballot in ballots for mask in ballot.masks]
    assert len({tuple(sorted(mask)) for mask in masks}) > 2


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_inference_works_where_gradients_are_off(mode, tiny_of):
    t = tiny_of("bert")
    expected = outcomes(t, SMALL)
    with mode():
        got = outcomes(t, SMALL)
    assert all(same(a, b) for a, b in zip(got, expected, strict=True))


def test_inference_changes_neither_weights_nor_modes_nor_global_randomness(tiny_of):
    t = tiny_of("t5", seed=3)
    t.model.train()
    before = {name: value.clone() for name, value in t.model.state_dict().items()}
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()
    outcomes(t, SMALL)
    assert all(module.training for module in t.model.modules())
    t.model.eval()
    assert all(parameter.grad is None for parameter in t.model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in t.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_no_rows_give_no_outcomes(tiny_of):
    for config in CONFIGS.values():
        assert infer(tiny_of("bert").smoothed(), config, [], []) == []


def test_pairs_are_masked_on_both_sides_but_never_between(tiny_of):
    t = tiny_of("bert")
    pairs = [("good film was", "a dull plot"), ("it is", "no joy , no music")]
    config = replace(SMALL, num_masks=2, num_candidates=50)
    for row, outcome in zip(t.rows(pairs), outcomes(t, config, pairs), strict=True):
        assert sorted(outcome.masks.pool) == list(row.maskable_positions)
        assert {row.sequence[i] for i in outcome.masks.pool} == {0, 1}


@pytest.mark.parametrize("num_labels", [2, 3])
@pytest.mark.parametrize("settings", [{}, {"stop_confidence": 0.7}, {"two_step": False}, {"masking": "none"}])
def test_a_label_alone_takes_the_first_of_the_same_votes(num_labels, settings, tiny_of):
    t = tiny_of("bert", num_labels)
    config = replace(SMALL, noise_std=0.25, **settings)
    saved = 0
    for one, other in zip(outcomes(t, config), outcomes(t, config, detail="label"), strict=True):
        assert one.decision.winner == other.decision.winner
        assert (one.decision.second_votes is None) == (other.decision.second_votes is None)
        assert (other.decision.first_votes <= one.decision.first_votes).all()
        if one.decision.second_votes is not None:
            assert (other.decision.second_votes <= one.decision.second_votes).all()
            saved += int(one.decision.second_votes.sum() - other.decision.second_votes.sum())
        saved += int(one.decision.first_votes.sum() - other.decision.first_votes.sum())
    assert saved > 0


@pytest.mark.parametrize("aggregation", ["vote", "logit-average"])
def test_probabilities_take_all_votes_but_those_of_a_step_one_that_fails(aggregation, tiny_of):
    t = tiny_of("bert", 3)
    config = replace(SMALL, noise_std=0.25, aggregation=aggregation)
    short = outcomes(t, config, detail="probabilities")
    for one, other in zip(outcomes(t, config), short, strict=True):
        assert one.decision.winner == other.decision.winner
        assert np.allclose(one.decision.probabilities, other.decision.probabilities, rtol=1e-4)
        if one.decision.second_votes is None:
            assert one.decision.first_votes.tolist() == other.decision.first_votes.tolist()
    assert any(own.decision.first_votes.sum() < 5 for own in short)


@pytest.mark.parametrize("detail", ["label", "probabilities", "votes"])
@pytest.mark.parametrize("least", [2, 4, 100])
def test_asking_for_more_copies_at_once_changes_nothing(least, detail, tiny_of):
    t, config = tiny_of("bert", 3), replace(SMALL, noise_std=0.25)
    few, many = (outcomes(t, config, detail=detail, least=least) for least in (1, least))
    assert all(same(one, other) for one, other in zip(few, many, strict=True))
