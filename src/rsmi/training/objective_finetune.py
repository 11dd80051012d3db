"""Plain fine-tuning: cross-entropy, no noise, no masks (the undefended baseline)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.tokens import Batch
from rsmi.training.objective import Objective, Step


@dataclass(frozen=True, slots=True)
class FinetuneObjective(Objective):
    """Cross-entropy of the clean batch."""

    encoder: Encoder

    def loss(self, step: Step) -> Tensor:
        """Return the mean cross-entropy."""
        return step.criterion(self.encoder.logits(step.batch, model=step.model), step.labels)

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one plain pass."""
        return plain_logits(self.encoder, batch)


def plain_logits(encoder: Encoder, batch: Batch) -> Tensor:
    """Classify a batch without dropout, noise or masks: -> (batch, classes)."""
    with torch.no_grad(), evaluating(encoder.model):
        return encoder.logits(batch)
