"""Plain fine-tuning: cross-entropy, no noise, no masks (the undefended baseline)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from rsmi.method.encoder import Encoder
from rsmi.method.saliency import evaluating
from rsmi.method.tokens import Batch


@dataclass(frozen=True, slots=True)
class FinetuneObjective:
    """Cross-entropy of the clean batch."""

    encoder: Encoder

    def loss(self, model: nn.Module, batch: Batch, labels: Tensor, key: int, until_backward: ExitStack) -> Tensor:
        """Return the mean cross-entropy."""
        return cross_entropy(self.encoder.logits(batch, model=model), labels)

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one plain pass."""
        with torch.no_grad(), evaluating(self.encoder.model):
            return self.encoder.logits(batch)
