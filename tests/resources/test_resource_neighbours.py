from __future__ import annotations

import numpy as np
import pytest

from rsmi.resources import neighbours
from rsmi.resources.neighbours import nearest, pairs_within


def unit_rows(count, width, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, width))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def by_hand(unit, count):
    """Sort every row by exact cosine, then by index."""
    exact = unit.astype(np.float64) @ unit.astype(np.float64).T
    np.fill_diagonal(exact, -2.0)
    order = np.argsort(-exact.round(9), axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(exact, order, axis=1)


@pytest.mark.parametrize(("rows", "width", "count"), [(700, 8, 50), (40, 5, 50), (2, 3, 50), (1300, 3, 10)])
def test_neighbours_are_those_of_a_full_sort(rows, width, count):
    unit = unit_rows(rows, width)
    indices, cosines = nearest(unit, count)
    wanted, exact = by_hand(unit, min(count, rows - 1))
    assert (indices == wanted).all()
    assert np.abs(cosines - exact).max() < 1e-6
    assert (indices.dtype, cosines.dtype) == (np.int32, np.float32)


def test_a_row_is_no_neighbour_of_its_own_even_if_it_occurs_twice():
    unit = unit_rows(30, 4)
    unit[7] = unit[3]
    indices, _ = nearest(unit, 5)
    assert indices[3, 0] == 7
    assert indices[7, 0] == 3
    assert not (indices == np.arange(30)[:, None]).any()


def test_among_equals_the_smaller_index_comes_first_however_many_they_are():
    unit = np.tile(unit_rows(4, 6), (100, 1))  # each row a hundred times: far more than are asked for
    indices, _ = nearest(unit, 10)
    wanted, _ = by_hand(unit, 10)
    assert (indices == wanted).all()
    assert indices[0].tolist() == [4 * k for k in range(1, 11)]


def test_the_size_of_a_block_does_not_matter(monkeypatch):
    unit = unit_rows(300, 5)
    whole = nearest(unit, 20), pairs_within(unit, 0.9)
    monkeypatch.setattr(neighbours, "_BLOCK", 7)
    parts = nearest(unit, 20), pairs_within(unit, 0.9)
    assert (whole[0][0] == parts[0][0]).all()
    assert (whole[0][1] == parts[0][1]).all()
    assert (whole[1] == parts[1]).all()


def test_pairs_within_a_bound_are_all_there_once():
    unit = unit_rows(600, 4)
    exact = unit.astype(np.float64) @ unit.astype(np.float64).T
    wanted = {(i, j) for i, j in zip(*np.where(exact > 0.95), strict=True) if i < j}
    pairs = pairs_within(unit, 0.95)
    assert len(wanted) > 100
    assert len(pairs) == len(wanted)
    assert {tuple(pair) for pair in pairs.tolist()} == wanted


def test_progress_goes_to_stderr(capsys):
    nearest(unit_rows(10, 3), 2, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "comparing words" in err
