from __future__ import annotations

from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from rsmi.method.masking import hide, hide_rows, random_positions, sample_positions, top_positions
from rsmi.seeds import generator


def test_top_positions_are_the_most_salient_first_and_ties_go_to_the_earlier():
    saliency = torch.tensor([[9.0, 1.0, 3.0, 3.0, 2.0, 9.0]])
    maskable = torch.tensor([[False, True, True, True, True, False]])
    assert top_positions(saliency, maskable, 3) == [(2, 3, 4)]
    assert top_positions(torch.zeros(1, 6), maskable, 2) == [(1, 2)]


@pytest.mark.parametrize("free", [0, 1, 2])
def test_a_short_text_masks_what_it_can(free):
    maskable = torch.zeros(1, 5, dtype=torch.bool)
    maskable[0, 1 : 1 + free] = True
    (top,) = top_positions(torch.rand(1, 5, generator=generator(0)), maskable, 4)
    assert sorted(top) == list(range(1, 1 + free))
    assert sample_positions(top, 2, 3, key=0) == [top] * 3
    (drawn,) = random_positions(maskable, 4, generator(0))
    assert sorted(drawn) == list(range(1, 1 + free))


@given(st.data())
def test_top_positions_never_leave_the_maskable_ones(data):
    tokens = data.draw(st.integers(1, 8))
    saliency = torch.tensor(data.draw(st.lists(st.floats(0, 10), min_size=tokens, max_size=tokens))).reshape(1, -1)
    maskable = torch.tensor(data.draw(st.lists(st.booleans(), min_size=tokens, max_size=tokens))).reshape(1, -1)
    count = data.draw(st.integers(1, 10))
    (top,) = top_positions(saliency, maskable, count)
    free = maskable[0].nonzero().flatten().tolist()
    assert top == tuple(sorted(free, key=lambda i: (-saliency[0, i].item(), i))[:count])


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 60), st.integers(0, 2**62))
def test_drawn_positions_are_distinct_and_their_prefix_is_stable(pool_size, num_masks, copies, key):
    pool = tuple(range(10, 10 + pool_size))
    masks = sample_positions(pool, num_masks, copies, key)
    assert len(masks) == copies
    for mask in masks:
        assert len(set(mask)) == len(mask) == min(num_masks, pool_size)
        assert set(mask) <= set(pool)
    assert sample_positions(pool, num_masks, copies, key) == masks
    assert sample_positions(pool, num_masks, copies + 37, key)[:copies] == masks


def test_masks_are_uniform_over_all_pairs_of_five():
    counts = dict.fromkeys(combinations(range(5), 2), 0)
    for key in range(400):  # many keys of few draws, as in use, and not one long stream
        for mask in sample_positions(range(5), 2, 25, key):
            counts[tuple(sorted(mask))] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_another_key_draws_other_masks():
    assert sample_positions(range(30), 4, 10, 1) != sample_positions(range(30), 4, 10, 2)


def test_random_positions_are_uniform_and_distinct():
    maskable = torch.tensor([[False, True, True, True, True, True, False]]).repeat(5000, 1)
    counts = dict.fromkeys(combinations(range(1, 6), 2), 0)
    for mask in random_positions(maskable, 2, generator(3)):
        counts[tuple(sorted(mask))] += 1
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_hiding_changes_a_copy_at_the_positions_alone():
    ids = (2, 7, 8, 9, 3)
    assert hide(ids, (3, 1), 4) == (2, 4, 8, 4, 3)
    assert hide(ids, (), 4) == ids
    rows = torch.tensor([ids, ids, ids])
    masked = hide_rows(rows, [(3, 1), (), (2,)], 4)
    assert masked.tolist() == [[2, 4, 8, 4, 3], list(ids), [2, 7, 4, 9, 3]]
    assert rows.tolist() == [list(ids)] * 3
