"""What a training objective is: a loss for each batch, and logits to judge an epoch by."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Protocol

from torch import Tensor, nn

from rsmi.method.tokens import Batch


class Objective(Protocol):
    """One method of training."""

    def loss(self, model: nn.Module, batch: Batch, labels: Tensor, key: int, until_backward: ExitStack) -> Tensor:
        """Return the mean loss of a batch.

        Args:
            model: The model as the trainer wrapped it; the objective's own encoder looks inside the same weights.
            batch: The texts.
            labels: Their classes, (batch,).
            key: Seed of everything random in this step.
            until_backward: Holds what must last until the backward pass, where checkpointed layers run again.
        """
        ...

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return logits for choosing the best epoch, (batch, classes)."""
        ...
