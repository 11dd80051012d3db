"""transformers' `Trainer` with the loss and the dev logits taken from an objective."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Sampler
from transformers import Trainer

from rsmi.errors import TrainingError
from rsmi.seeds import derive, generator
from rsmi.training import snapshot
from rsmi.training.features import NO_LABEL, as_batch
from rsmi.training.objective import Objective, Step
from rsmi.training.processes import shards, whole_weights

_TRAINER_STATE = "trainer_state.json"  # the name under which `Trainer` looks for it


class ObjectiveTrainer(Trainer):  # type: ignore[misc]
    """A `Trainer` whose steps draw all their randomness, dropout too, from (seed, process, update, part of the update).

    So a step is the same whatever ran before it, and a run that goes on from a snapshot equals one never interrupted.
    """

    loss_is_scaled_for_ga = False  # the objective returns a per-batch mean; transformers >= 5.2 reads this

    def __init__(
        self,
        *args: Any,
        objective: Objective,
        criterion: Callable[[Tensor, Tensor], Tensor],
        key: int,
        order: Sampler[int],
        folder: snapshot.RunFolder,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False  # the same for older transformers
        self._objective = objective
        self._criterion = criterion
        self._key = key
        self._order = order
        self._folder = folder
        self.best_weights: dict[str, Tensor] | None = None  # of a model spread over processes, which no file holds
        self._until_backward = ExitStack()
        self._part = (-1, 0)
        self._parts_of_update, self._texts_of_update = 1, 1
        self._own_parameters = [own for module in objective.modules.values() for own in module.parameters()]
        self._loss_sum = 0.0  # over the updates of this epoch

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        """Run forward and backward, with the objective's noise in place for both."""
        update, part = self._part
        self._part = (self.state.global_step, part + 1 if update == self.state.global_step else 0)
        self._seed_dropout(derive(self._step_key, "dropout"))
        if self._part[1] == 0:
            for parameter in self._own_parameters:  # `Trainer` clears those of the model only
                parameter.grad = None
        with ExitStack() as self._until_backward:
            loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        if not bool(loss.isfinite()):
            raise self._diverged(f"the loss is {loss.item()}", inputs)
        self._loss_sum += loss.item()
        if self._part[1] == self._parts_of_update - 1 and self.args.world_size > 1:
            for parameter in self._own_parameters:  # the model's are averaged over the processes by its wrapper
                parameter.grad = self.accelerator.reduce(parameter.grad, "mean")
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
        # 1 but in the last update of an epoch: Trainer averages over parts and processes, some may hold fewer texts
        weight = len(labels) * self._parts_of_update * self.args.world_size / self._texts_of_update

        def backward(loss: Tensor) -> None:
            self.accelerator.backward(loss * weight / self.current_gradient_accumulation_steps)

        batch = as_batch(inputs)
        step = Step(model, batch, labels, self._step_key, self._criterion, self._until_backward, backward)
        loss: Tensor = self._objective.loss(step) * weight
        return loss

    def get_batch_samples(self, *args: Any, **kwargs: Any) -> tuple[list[Any], Tensor | int | None]:
        """Fetch the parts of the next update and count their texts, over all processes."""
        samples, items = super().get_batch_samples(*args, **kwargs)
        self._parts_of_update = max(1, len(samples))
        texts = sum(torch.count_nonzero(sample["labels"] != NO_LABEL) for sample in samples)
        texts = torch.as_tensor(texts, device=self.args.device)
        self._texts_of_update = max(1, int(self.accelerator.reduce(texts, "sum")))
        return samples, items

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        """Make the optimizer, for the objective's own modules too."""
        made = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(*args, **kwargs)
        if made and self._own_parameters:
            optimizer.add_param_group({"params": self._own_parameters, "weight_decay": 0.0})
        return optimizer

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Log the mean loss of the whole epoch: `Trainer`'s starts anew where a run goes on within one."""
        if "loss" in logs:
            updates = (self.state.global_step - 1) % self._updates_per_epoch + 1
            logs["loss"] = self._mean_over_processes(self._loss_sum) / updates
            self._loss_sum = 0.0
        super().log(logs, *args, **kwargs)

    def _get_train_sampler(self, *args: Any, **kwargs: Any) -> Sampler[int] | None:
        return self._order

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

    def _determine_best_metric(self, *args: Any, **kwargs: Any) -> bool:
        better: bool = super()._determine_best_metric(*args, **kwargs)
        if better and shards():
            self.best_weights = whole_weights(self.model)
        elif better and self.args.should_save:
            self._check_weights()
            self._folder.save_best(self.state.global_step, self.model)
        return better

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        """Write a snapshot; `Trainer`'s own is not atomic and pickles."""
        loss_sum = self._mean_over_processes(self._loss_sum)
        if self.args.should_save:
            self._check_weights()
            tensors, optimizer = snapshot.optimizer_parts(self.optimizer)
            scaler = self.accelerator.scaler
            state = {
                "optimizer": optimizer,
                "schedule": self.lr_scheduler.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "loss_sum": loss_sum,
            }
            self._folder.save(
                self.state.global_step, self._modules(), tensors, state, {_TRAINER_STATE: self.state.save_to_json}
            )
        self.accelerator.wait_for_everyone()

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: nn.Module | None = None) -> None:
        for name, module in self._modules().items():
            snapshot.read_model(Path(resume_from_checkpoint), name, module)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is not None:
            state = snapshot.read_state(Path(checkpoint))
            snapshot.restore_optimizer(self.optimizer, snapshot.read_tensors(Path(checkpoint)), state["optimizer"])
            self.lr_scheduler.load_state_dict(state["schedule"])
            if state["scaler"] is not None:
                self.accelerator.scaler.load_state_dict(state["scaler"])
            self._loss_sum = state["loss_sum"]

    def _load_scaler(self, checkpoint: str | None) -> None:
        """Nothing: the scaler comes with the optimizer."""

    def _load_rng_state(self, checkpoint: str | None) -> None:
        """Nothing: every step seeds itself."""

    def _seed_dropout(self, key: int) -> None:
        torch.set_rng_state(generator(key).get_state())
        if self.args.device.type == "cuda":
            torch.cuda.set_rng_state(generator(key, self.args.device).get_state(), self.args.device)

    def _check_weights(self) -> None:
        if not all(bool(parameter.isfinite().all()) for parameter in self.model.parameters()):
            raise self._diverged("a weight is not finite", None)

    def _diverged(self, what: str, inputs: Mapping[str, Tensor] | None) -> TrainingError:
        where = f"update {self.state.global_step + (inputs is not None)} of {self.state.max_steps}"
        if inputs is not None:
            where += f" (texts {', '.join(map(str, inputs['places'].tolist()))} of the training set, counted from 0)"
        kept = self._folder.newest()
        rest = f"; {kept} holds the run before that" if kept and not self._folder.temporary else ""
        return TrainingError(
            f"training diverged: {what} at {where}; lower learning_rate, or use precision='fp32'{rest}"
        )

    @property
    def _step_key(self) -> int:
        return derive(self._key, "train", self.args.process_index, *self._part)

    @property
    def _updates_per_epoch(self) -> int:
        updates: int = self.state.max_steps // round(self.args.num_train_epochs)
        return max(1, updates)

    def _modules(self) -> dict[str, nn.Module]:
        return {"model": self.model, **self._objective.modules}

    def _mean_over_processes(self, value: float) -> float:
        if self.args.world_size == 1:
            return value
        return float(self.accelerator.reduce(torch.tensor(value, device=self.args.device), "mean"))
