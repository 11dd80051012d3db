"""transformers' `Trainer` with the loss and the dev logits taken from an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Sampler
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from rsmi.seeds import derive, generator
from rsmi.training.features import as_batch
from rsmi.training.objective import Objective, Step


class ObjectiveTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose steps draw their randomness from (seed, process, update, part of the update)."""

    loss_is_scaled_for_ga = False  # the objective returns a per-batch mean; transformers >= 5.2 reads this

    def __init__(
        self,
        *args: Any,
        objective: Objective,
        criterion: Callable[[Tensor, Tensor], Tensor],
        key: int,
        group_by_length: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # the same for older transformers
        self._objective = objective
        self._criterion = criterion
        self._key = key
        self._group_by_length = group_by_length
        self._until_backward = ExitStack()
        self._part = (0, 0)
        self._parts_of_update, self._texts_of_update = 1, 1

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Run forward and backward, with the objective's noise in place for both."""
        with ExitStack() as self._until_backward:
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        return loss

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Mapping[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """Return the objective's loss."""
        labels = inputs["labels"]
        # 1 but in the last update of an epoch: Trainer averages over parts, of which the last may hold fewer texts
        weight = len(labels) * self._parts_of_update / self._texts_of_update

        def backward(loss: Tensor) -> None:
            self.accelerator.backward(loss * weight / self.current_gradient_accumulation_steps)

        batch, key = as_batch(inputs), self._next_key()
        step = Step(model, batch, labels, key, self._criterion, self._until_backward, backward)
        return self._objective.loss(step) * weight

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Tensor | int | None]:
        """Fetch the parts of the next update and count their texts."""
        samples, items = super().get_batch_samples(*args, **kwargs)
        self._parts_of_update = max(1, len(samples))
        self._texts_of_update = sum(len(sample["labels"]) for sample in samples)
        return samples, items

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Sampler[int] | None:
        sampler: Sampler[int] | None
        if self._group_by_length:
            # not Trainer's own option, whose name and input differ between releases
            update = self.args.train_batch_size * self.args.gradient_accumulation_steps
            order = generator(derive(self._key, "order"))
            sampler = LengthGroupedSampler(update, lengths=self.train_dataset.lengths, generator=order)
        else:
            sampler = super()._get_train_sampler(*args, **kwargs)
        return sampler

    def prediction_step(
        self,
        model: nn.Module,
        inputs: dict[str, Tensor | Any],
        prediction_loss_only: bool,
        ignore_keys: list[str] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        """Return loss, logits and labels of a dev batch."""
        inputs = self._prepare_inputs(inputs)
        labels = inputs["labels"]
        # the key follows the texts, so every epoch is judged under the same noise
        key = derive(self._key, "dev", int(inputs["input_ids"].sum()), len(labels))
        logits = self._objective.dev_logits(as_batch(inputs), key)
        return cross_entropy(logits, labels).detach(), logits, labels

    def _next_key(self) -> int:
        step, part = self._part
        self._part = (self.state.global_step, part + 1 if step == self.state.global_step else 0)
        return derive(self._key, "train", self.args.process_index, *self._part)
