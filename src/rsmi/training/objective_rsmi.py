"""RSMI's training step (Algorithm 1): mask the most salient tokens, move the embeddings up the gradient, add noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rsmi.config import Masking
from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.masking import hide_rows, random_positions, top_positions
from rsmi.method.noise import NoisePlan, batch_noise, noisy, noisy_logits, shifted_by_noise
from rsmi.method.saliency import EmbeddingGradient, embedding_gradient
from rsmi.method.tokens import Batch
from rsmi.seeds import derive, generator
from rsmi.training.objective import Objective, Step


@dataclass(frozen=True, slots=True)
class RsmiObjective(Objective):
    """Cross-entropy of masked, shifted, noisy inputs, and its variants.

    `masking="none"` leaves the masks out, `embedding_step=0` the shift, `plan.std=0` the noise (GM). Random masks (RM)
    come without the shift: that model never looks at a gradient.
    """

    encoder: Encoder
    plan: NoisePlan
    masking: Masking
    num_masks: int
    mask_token_id: int
    saliency_samples: int
    embedding_step: float
    batch_size: int
    """Texts of a whole update. The shift is `embedding_step` x the gradient of the batch-mean loss; dividing by this
    number, not by the rows at hand, keeps it the same however a batch is split over devices or accumulation steps."""

    def loss(self, step: Step) -> Tensor:
        """Return the mean cross-entropy of the masked copy."""
        gradient = None
        if self._needs_gradient:
            labels = step.labels.clamp_min(0)  # below 0: a row that only fills up the batch
            gradient = self._gradient(step.batch, labels, derive(step.key, "saliency"))
        masked = self._masked(step.batch, gradient, step.key)
        shift = None
        if gradient is not None and self.embedding_step > 0:
            # the gradient of the unmasked input, added at every position of the masked one (as the authors' code does)
            shift = gradient.gradient * (self.embedding_step / self.batch_size)
        source = batch_noise(derive(step.key, "loss"), self.encoder.device)
        step.until_backward.enter_context(noisy(self.encoder.layers, self.plan, source))
        shift = shifted_by_noise(self.encoder, self.plan, masked, source, shift)
        return step.criterion(self.encoder.logits(masked, shift, step.model), step.labels)

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one noisy masked pass, masks by the predicted class (as the authors choose an epoch)."""
        gradient = self._gradient(batch, None, derive(key, "saliency")) if self.masking == "gradient" else None
        masked = self._masked(batch, gradient, key)
        source = batch_noise(derive(key, "loss"), self.encoder.device)
        with torch.no_grad(), evaluating(self.encoder.model):
            return noisy_logits(self.encoder, self.plan, masked, source)

    @property
    def _needs_gradient(self) -> bool:
        return self.masking == "gradient" or (self.masking == "none" and self.embedding_step > 0)

    def _gradient(self, batch: Batch, labels: Tensor | None, key: int) -> EmbeddingGradient:
        source = batch_noise(key, self.encoder.device)
        return embedding_gradient(self.encoder, self.plan, batch, source, self.saliency_samples, labels)

    def _masked(self, batch: Batch, gradient: EmbeddingGradient | None, key: int) -> Batch:
        if self.masking == "none":
            return batch
        if self.masking == "random" or gradient is None:
            positions = random_positions(batch.maskable, self.num_masks, generator(derive(key, "masks")))
        else:
            positions = top_positions(gradient.saliency(batch.maskable), batch.maskable, self.num_masks)
        return replace(batch, input_ids=hide_rows(batch.input_ids, positions, self.mask_token_id))
