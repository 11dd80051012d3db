from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from rsmi.method.voting import Ballot, Prefixes, collect_votes
from rsmi.seeds import derive
from tiny import FAMILIES, some_texts

ALL = pytest.mark.parametrize("family", FAMILIES)


def ballots_for(t, texts, copies=3):
    rows = t.rows(texts)
    return [
        Ballot(
            row,
            tuple(row.maskable_positions[i : i + 1] for i in range(copies)),
            tuple(derive(n, i) for i in range(copies)),
        )
        for n, row in enumerate(rows)
    ]


@ALL
def test_logits_are_those_of_each_masked_noisy_copy_alone(family, tiny_of):
    t = tiny_of(family)
    ballots = ballots_for(t, some_texts(5, 2, 12))
    smoothed = t.smoothed()
    together = collect_votes(smoothed, ballots)
    for ballot, votes in zip(ballots, together, strict=True):
        assert votes.logits.shape == (3, 2)
        for i in range(3):
            (alone,) = collect_votes(smoothed, [Ballot(ballot.row, ballot.masks[i : i + 1], ballot.keys[i : i + 1])])
            np.testing.assert_allclose(votes.logits[i], alone.logits[0], rtol=1e-3, atol=1e-4)


def test_without_noise_a_copy_is_the_text_with_its_mask(tiny_of):
    t = tiny_of("bert")
    (row,) = t.rows(["good film was bad"])
    (votes,) = collect_votes(t.smoothed(std=0.0), [Ballot(row, ((), (2, 4)), (1, 1))])
    inputs = t.tokenizer(["good film was bad", "good [MASK] was [MASK]"], return_tensors="pt")
    assert inputs["input_ids"][1, 2] == inputs["input_ids"][1, 4] == t.tokenizer.mask_token_id
    with torch.no_grad():
        np.testing.assert_allclose(votes.logits, t.model(**inputs).logits.numpy(), rtol=1e-4, atol=1e-5)


@given(budget=st.integers(1, 300))
def test_the_budget_bounds_every_forward_pass_and_changes_no_vote(budget, tiny_of):
    t = tiny_of("bert")
    ballots = ballots_for(t, some_texts(4))
    sizes = []
    key = t.model.bert.encoder.layer[1].attention.self.key
    handle = key.register_forward_pre_hook(lambda _module, args: sizes.append(tuple(args[0].shape[:2])))
    try:
        got = collect_votes(t.smoothed(token_budget=budget), ballots)
    finally:
        handle.remove()
    assert all(rows == 1 or rows * tokens <= budget for rows, tokens in sizes)
    assert sum(rows for rows, _ in sizes) == 12
    for votes, expected in zip(got, collect_votes(t.smoothed(), ballots), strict=True):
        np.testing.assert_allclose(votes.logits, expected.logits, rtol=1e-3, atol=1e-4)


def test_a_training_model_votes_without_dropout_and_goes_on_training(tiny_of):
    t = tiny_of("bert", seed=9)
    ballots = ballots_for(t, some_texts(2))
    expected = collect_votes(t.smoothed(), ballots)
    t.model.train()
    got = collect_votes(t.smoothed(), ballots)
    assert t.model.training
    t.model.eval()
    for a, b in zip(got, expected, strict=True):
        assert np.array_equal(a.logits, b.logits)


def test_batch_noise_votes_are_random_but_repeatable(tiny_of):
    t = tiny_of("bert")
    (row,) = t.rows(["good film was bad"])
    smoothed = t.smoothed(per_row=False)
    ballot = Ballot(row, ((),) * 6, tuple(range(6)))
    (one,), (two,) = collect_votes(smoothed, [ballot]), collect_votes(smoothed, [ballot])
    assert np.array_equal(one.logits, two.logits)
    assert len(np.unique(one.logits[:, 0])) == 6
    (other,) = collect_votes(smoothed, [Ballot(row, ((),) * 6, tuple(range(1, 7)))])
    assert not np.array_equal(one.logits, other.logits)


def test_no_ballots_give_no_votes(tiny_of):
    assert collect_votes(tiny_of("bert").smoothed(), []) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_without_noise_equal_copies_agree_to_the_last_bit_and_cost_one_pass(family, tiny_of):
    t = tiny_of(family)
    rows = t.rows(some_texts(5, 4, 9, seed=4))
    ballots = [Ballot(row, ((1,), (), (1,), (2,)) * 5, tuple(range(20))) for row in rows]
    for votes in collect_votes(t.smoothed(std=0.0, token_budget=40), ballots):
        assert len({tuple(row) for row in votes.logits[0::4].tolist() + votes.logits[2::4].tolist()}) == 1


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("layers", [(0, 2), (3,)], ids=str)
@pytest.mark.parametrize("kept", [32, 0])
def test_states_before_the_noise_are_kept_from_one_call_to_the_next_and_change_no_vote(
    family, layers, kept, tiny_of, monkeypatch
):
    monkeypatch.setattr("rsmi.method.voting._KEPT", kept)
    t = tiny_of(family)
    smoothed = t.smoothed(layers=layers, token_budget=60)
    rows = t.rows(some_texts(6, 2, 12))
    first = [Ballot(row, ((1,), (1,)), (derive(i, 0), derive(i, 1))) for i, row in enumerate(rows)]
    later = [Ballot(row, ((1,), (2,)), (derive(i, 2), derive(i, 3))) for i, row in enumerate(rows[::2])]
    expected = collect_votes(smoothed, first), collect_votes(smoothed, later)
    seen = []
    embeddings = t.model.get_input_embeddings()
    handle = embeddings.register_forward_pre_hook(lambda _module, args: seen.append(len(args[0])))
    prefixes = Prefixes(smoothed)
    try:
        found = collect_votes(smoothed, first, prefixes), collect_votes(smoothed, later, prefixes)
    finally:
        handle.remove()
    assert sum(seen) == 6 + 3 if kept else sum(seen) >= 6 + 6  # of each of the three one mask is new
    for own, other in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        np.testing.assert_allclose(own.logits, other.logits, rtol=1e-3, atol=1e-4)


class Unwatched(TorchDispatchMode):
    """Refuses whatever would make a GPU's caller wait for its answer."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function.overloadpacket.__name__ not in ("_local_scalar_dense", "nonzero", "equal", "is_nonzero")
        return function(*args, **(kwargs or {}))


# the others take transformers' forward pass, which asks whether there is padding
@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra"])
@pytest.mark.parametrize("per_row", [True, False])
def test_nothing_waits_for_an_answer_while_copies_vote(family, per_row, tiny_of):
    t = tiny_of(family)
    smoothed = t.smoothed(token_budget=40, per_row=per_row)
    ballots = ballots_for(t, some_texts(6, 2, 12))
    expected = collect_votes(smoothed, ballots)
    with Unwatched():
        found = collect_votes(smoothed, ballots)
        with pytest.raises(AssertionError):
            torch.ones(1).item()
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.logits, other.logits, rtol=1e-3, atol=1e-4)
