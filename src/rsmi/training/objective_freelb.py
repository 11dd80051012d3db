"""FreeLB (Zhu et al. 2020): gradient ascent on the word embeddings, with the model's gradients of every step used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from rsmi.method.encoder import Encoder
from rsmi.method.tokens import Batch
from rsmi.seeds import derive, generator
from rsmi.training.objective import Objective, Step
from rsmi.training.objective_finetune import plain_logits

_TINY = 1e-12  # a gradient of exactly zero has no direction


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass of an ascent."""

    loss: Tensor
    """This pass's share of the mean loss."""
    gradient: Tensor | None = None
    """What to climb along at the shift, (batch, tokens, width); None takes the gradient of `loss`."""


@dataclass(frozen=True, slots=True)
class FreelbObjective(Objective):
    """Mean cross-entropy over the steps of an ascent inside a ball around the word embeddings of each text."""

    encoder: Encoder
    ascent_steps: int
    """Forward and backward passes an update (paper: K)."""
    step_size: float
    """Length of one ascent step, in the Frobenius norm of a text's embeddings (paper: alpha)."""
    radius: float
    """Radius of the ball, in the same norm (paper: epsilon); 0 keeps the text where it is."""
    initial_size: float
    """Scale of the random start: uniform in [-1, 1] times this, over the root of the number of entries."""

    def loss(self, step: Step) -> Tensor:
        """Return the mean loss over the ascent; all passes but the last have run their backward already."""
        return self.ascend(step, lambda shift: self._pass(step, shift))

    def ascend(self, step: Step, run: Callable[[Tensor], Pass]) -> Tensor:
        """Return the summed loss of `ascent_steps` passes, each run at its own shift of the word embeddings.

        Dropout draws the same mask in every pass, as in the paper: the ascent moves through one network.
        """
        real = step.batch.attention_mask.unsqueeze(-1).to(torch.float32)  # padding is not moved
        shift = self._project(self._start(step, real))
        device = self.encoder.device
        gpus = [device] if device.type == "cuda" else []
        earlier = torch.zeros((), device=device)
        for _ in range(self.ascent_steps - 1):
            shift = shift.detach().requires_grad_()
            with torch.random.fork_rng(gpus):  # the next pass draws its dropout from where this one did
                taken = run(shift)
                reached = _gradient_at(shift, step, taken.loss)
            direction = reached if taken.gradient is None else taken.gradient
            earlier = earlier + taken.loss.detach()
            shift = self._project(shift.detach() + self.step_size * direction / _norms(direction))
        # the value is the mean over all passes, the gradient that of the last one
        return run(shift.detach()).loss + earlier

    def dev_logits(self, batch: Batch, key: int) -> Tensor:
        """Return the logits of one plain pass."""
        return plain_logits(self.encoder, batch)

    def _pass(self, step: Step, shift: Tensor) -> Pass:
        logits = self.encoder.logits(step.batch, shift, step.model)
        return Pass(step.criterion(logits, step.labels) / self.ascent_steps)

    def _start(self, step: Step, real: Tensor) -> Tensor:
        shape = (*step.batch.input_ids.shape, self.encoder.embedding_width)
        drawn = torch.rand(shape, generator=generator(derive(step.key, "start"))).to(self.encoder.device) * 2 - 1
        entries = real.sum((1, 2), keepdim=True) * self.encoder.embedding_width
        return drawn * real * self.initial_size / entries.sqrt()

    def _project(self, shift: Tensor) -> Tensor:
        """Pull each text's shift back into the ball."""
        return shift * (self.radius / _norms(shift)).clamp(max=1.0)


def _gradient_at(shift: Tensor, step: Step, loss: Tensor) -> Tensor:
    """Run the backward pass of `loss`, which the parameters' gradients add up over, and return that at `shift`."""
    step.backward(loss)
    if shift.grad is None:
        raise RuntimeError("expected the backward pass to reach the word embeddings, it did not")
    return shift.grad


def _norms(values: Tensor) -> Tensor:
    """Frobenius norm of each text, (batch, 1, 1)."""
    norms: Tensor = values.flatten(1).norm(dim=1)
    return norms.clamp_min(_TINY).view(-1, 1, 1)
