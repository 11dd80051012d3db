"""Plain fine-tuning: cross-entropy, no noise, no masks (the undefended baseline)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rsmi.method.encoder import Encoder
from rsmi.method.saliency import evaluating
from rsmi.method.tokens import Batch
from rsmi.training.objective import Step


@dataclass(frozen=True, slots=True)
class FinetuneObjective:
    """Cross-entropy of the clean batch."""

    encoder: Encoder

    def loss(self, step: Step) -> Tensor:
        """Return the mean cross-entropy."""
        return step.criterion(self.encoder.logits(step.batch, model=step.model), step.labels)

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one plain pass."""
        with torch.no_grad(), evaluating(self.encoder.model):
            return self.encoder.logits(batch)
