"""What a training objective is: a loss for each batch, and logits to judge an epoch by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from rsmi.method.tokens import Batch


@dataclass(frozen=True, slots=True)
class Step:
    """One forward and backward of training, as the trainer hands it to an objective."""

    model: nn.Module
    """The model as the trainer wrapped it; the objective's own encoder looks inside the same weights."""
    batch: Batch
    labels: Tensor
    """(batch,)."""
    key: int
    """Seed of everything random in this step."""
    criterion: Callable[[Tensor, Tensor], Tensor]
    """(logits, labels) -> mean loss, with whatever weights and smoothing the user asked for."""
    until_backward: ExitStack
    """Holds what must last until the backward pass, where checkpointed layers run again."""
    backward: Callable[[Tensor], None]
    """Runs a backward pass at once: for objectives that take several; the last one is the trainer's."""


class Objective(Protocol):
    """One method of training."""

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Modules trained along with the model and dropped afterwards, by name."""
        return {}

    def loss(self, step: Step) -> Tensor:
        """Return the mean loss of a batch."""
        ...

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return logits for choosing the best epoch, (batch, classes)."""
        ...
