"""Logits and labels -> loss, with class weights and label smoothing if asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


def make_criterion(
    labels: Sequence[int], num_classes: int, balanced: bool, label_smoothing: float
) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the mean cross-entropy; `balanced` gives each class of `labels` the same weight in all, rare or not.

    Weighted examples are averaged over the number of texts, not over the sum of their weights, so that a batch counts
    the same however it is split.
    """
    counts = torch.bincount(torch.tensor(labels), minlength=num_classes).clamp_min(1)
    weights = len(labels) / (num_classes * counts) if balanced else torch.ones(num_classes)

    def criterion(logits: Tensor, gold: Tensor) -> Tensor:
        losses = cross_entropy(logits, gold, reduction="none", label_smoothing=label_smoothing)
        return (losses * weights.to(losses)[gold.clamp_min(0)]).mean()  # below 0: a row that only fills up the batch

    return criterion
