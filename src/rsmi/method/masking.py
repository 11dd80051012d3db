"""Saliency -> positions -> masked copies."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rsmi.seeds import generator


def top_positions(saliency: Tensor, maskable: Tensor, count: int) -> list[tuple[int, ...]]:
    """Return the `count` most salient maskable positions of each row, most salient first; all where there are fewer.

    Equal saliency goes to the earlier token. Shapes: (batch, tokens) both.
    """
    order = saliency.masked_fill(~maskable, -1.0).sort(dim=1, descending=True, stable=True).indices
    available = maskable.sum(1).tolist()
    kept = order[:, :count].tolist()
    return [tuple(row[: min(count, free)]) for row, free in zip(kept, available, strict=True)]


def sample_positions(pool: Sequence[int], num_masks: int, copies: int, key: int) -> list[tuple[int, ...]]:
    """Draw `num_masks` distinct positions of `pool` for each copy, all positions where the pool is smaller.

    The draws of the first copies do not depend on how many follow.
    """
    if len(pool) <= num_masks:
        return [tuple(pool)] * copies
    order = torch.rand((copies, len(pool)), generator=generator(key)).argsort(dim=1)[:, :num_masks]
    return [tuple(pool[i] for i in row) for row in order.tolist()]


def random_positions(maskable: Tensor, count: int, rng: torch.Generator) -> list[tuple[int, ...]]:
    """Draw `count` distinct maskable positions for each row of a batch, for training on random masks."""
    scores = torch.rand(maskable.shape, generator=rng, device=rng.device).to(maskable.device)
    return top_positions(scores, maskable, count)


def hide(ids: Sequence[int], positions: Sequence[int], mask_token_id: int) -> tuple[int, ...]:
    """Return `ids` with the mask token at `positions`."""
    hidden = list(ids)
    for position in positions:
        hidden[position] = mask_token_id
    return tuple(hidden)


def hide_rows(input_ids: Tensor, positions: Sequence[Sequence[int]], mask_token_id: int) -> Tensor:
    """Return a copy of `input_ids` (batch, tokens) with the mask token at each row's own `positions`."""
    masked = input_ids.clone()
    for row, own in enumerate(positions):
        if own:
            masked[row, list(own)] = mask_token_id
    return masked
