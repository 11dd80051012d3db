"""Batch -> gradient of the loss at each token embedding, averaged over noise draws."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rsmi.method.encoder import Encoder, evaluating
from rsmi.method.noise import NoisePlan, NoiseSource, noisy_logits
from rsmi.method.tokens import Batch

BACKWARD_COST = 3
"""A pass with gradients keeps its activations: a third of the tokens in the same memory."""


@dataclass(frozen=True, slots=True)
class EmbeddingGradient:
    """Gradient of the summed loss at the word embeddings, (batch, tokens, width)."""

    gradient: Tensor

    def saliency(self, maskable: Tensor) -> Tensor:
        """Return its norm per token, 0 where a token may not be masked: (batch, tokens)."""
        norms: Tensor = self.gradient.norm(dim=-1)
        return norms.masked_fill(~maskable, 0.0)


def embedding_gradient(
    encoder: Encoder,
    plan: NoisePlan,
    batch: Batch,
    source: NoiseSource,
    samples: int = 1,
    labels: Tensor | None = None,
) -> EmbeddingGradient:
    """Differentiate -log of the probability of `labels`, averaged over `samples` noise draws (paper: equation 4).

    Each example's loss is summed, so the gradient of one does not depend on the size of the batch. The model runs in
    eval mode and is left as it was; only the embeddings get a gradient, never a parameter.

    Args:
        encoder: The classifier.
        plan: Where the noise goes; it is on here as everywhere.
        batch: What to explain.
        source: Noise for `batch.repeat(samples)`: all draws of the first row, then of the second, and so on.
        samples: Noise draws averaged inside the logarithm (paper: nu).
        labels: Gold classes in training; by default the class of highest average probability.
    """
    # inference_mode(False): a caller's inference mode would otherwise forbid the gradient
    with torch.inference_mode(False), torch.enable_grad(), evaluating(encoder.model):
        # the gradient at a zero shift of the embeddings is the gradient at the embeddings
        shift = torch.zeros(*batch.input_ids.shape, encoder.embedding_width, device=encoder.device, requires_grad=True)
        logits = noisy_logits(encoder, plan, batch.repeat(samples), source, shift.repeat_interleave(samples, 0))
        log_probs = logits.log_softmax(-1).view(len(batch.lengths), samples, -1)
        mean_log_probs = log_probs.logsumexp(1) - math.log(samples)  # (batch, classes)
        chosen = mean_log_probs.argmax(-1) if labels is None else labels
        loss = -mean_log_probs.gather(1, chosen.unsqueeze(1)).sum()
        (gradient,) = torch.autograd.grad(loss, shift)
    return EmbeddingGradient(gradient)
