"""Unit vectors -> the nearest others of each, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import torch

from rsmi.resources.vector_files import Floats

_BLOCK: Final = 512  # rows compared with all others at a time: bounds the memory
_SLACK: Final = 14  # candidates beyond those asked for, put in order by exact cosines
_CLOSE: Final = 1e-6  # what float32 cannot tell apart
_DIGITS: Final = 9  # of an exact cosine; the rest depends on the order of addition

Indices = np.ndarray[Any, np.dtype[np.int32]]
"""An array of int32."""


def nearest(unit: Floats, count: int, progress: bool = False) -> tuple[Indices, Floats]:
    """Return the `count` nearest other rows of each row, nearest first, and their cosines: (rows, count) each.

    Candidates are found in float32; their order is that of cosines computed in float64, so that it does not depend on
    the machine, and among equals the smaller index comes first.

    Args:
        unit: (rows, width), rows of length 1.
        count: How many; fewer if there are fewer other rows.
        progress: Whether to draw a bar on stderr.
    """
    count = min(count, len(unit) - 1)
    wanted = min(count + _SLACK, len(unit) - 1)
    indices = np.empty((len(unit), count), dtype=np.int32)
    cosines = np.empty((len(unit), count), dtype=np.float32)
    for start, block in similarity_blocks(unit, progress):
        rows = torch.arange(len(block))
        block[rows, rows + start] = -2.0  # a row is no neighbour of its own
        found = block.topk(wanted, dim=1)
        chosen = found.indices.numpy()
        exact = np.einsum("rw,rkw->rk", unit[start : start + len(block)], unit[chosen], dtype=np.float64)
        order = np.lexsort((chosen, -exact.round(_DIGITS)), axis=1)[:, :count]
        part = slice(start, start + len(block))
        indices[part] = np.take_along_axis(chosen, order, axis=1)
        cosines[part] = last = np.take_along_axis(exact, order, axis=1)
        if wanted < len(unit) - 1:  # where many rows are as near as the last one, all of them have to be ordered
            for row in np.flatnonzero(last[:, -1] - found.values[:, -1].numpy() < _CLOSE) + start:
                indices[row], cosines[row] = _ordered(unit, int(row), count)
    return indices, cosines


def _ordered(unit: Floats, row: int, count: int) -> tuple[Indices, Floats]:
    exact = unit.astype(np.float64) @ unit[row].astype(np.float64)
    exact[row] = -2.0
    order = np.argsort(-exact.round(_DIGITS), kind="stable")[:count]
    return order.astype(np.int32), exact[order].astype(np.float32)


def pairs_within(unit: Floats, min_cosine: float, progress: bool = False) -> Indices:
    """Return the pairs of rows whose cosine is above a bound, each once, smaller index first: (pairs, 2)."""
    found = []
    for start, block in similarity_blocks(unit, progress):
        rows, columns = torch.where(block > min_cosine)
        rows += start
        found.append(torch.stack((rows, columns), dim=1)[rows < columns])
    pairs: Indices = torch.cat(found).numpy().astype(np.int32)
    return pairs


def similarity_blocks(unit: Floats, progress: bool = False) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (first row, cosines of some rows with all rows) until every row had its turn; the block may be changed."""
    from tqdm import tqdm

    everything = torch.from_numpy(np.ascontiguousarray(unit))
    starts = range(0, len(unit), _BLOCK)
    for start in tqdm(starts, desc="comparing words", unit="block", disable=not progress, leave=False):
        yield start, everything[start : start + _BLOCK] @ everything.T
