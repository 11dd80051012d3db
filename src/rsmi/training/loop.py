"""Encoded texts -> trained weights in place, and the history of the run."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from accelerate.utils import broadcast
from torch import Tensor
from transformers import EvalPrediction, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from rsmi.config import RsmiConfig, TrainConfig
from rsmi.errors import ConfigError, RsmiError, TrainingError, UnsupportedModelError
from rsmi.method.encoder import Encoder
from rsmi.method.noise import NoisePlan
from rsmi.method.pretrained import quiet
from rsmi.method.tokens import Encoded
from rsmi.seeds import derive, global_state_kept
from rsmi.training.arguments import environment_kept, make_arguments
from rsmi.training.criterion import make_criterion
from rsmi.training.features import Collator, EpochOrder, Examples
from rsmi.training.keeping import EpochClock, Patience, SaveSchedule
from rsmi.training.lora import adapters
from rsmi.training.objective import Objective
from rsmi.training.objective_finetune import FinetuneObjective
from rsmi.training.objective_freelb import FreelbObjective
from rsmi.training.objective_infobert import InfobertObjective
from rsmi.training.objective_rsmi import RsmiObjective
from rsmi.training.processes import count, from_first, shards, whole_weights
from rsmi.training.progress import ProgressBar, close_bars
from rsmi.training.snapshot import RunFolder, check, read_model
from rsmi.training.trainer import ObjectiveTrainer


@dataclass(frozen=True, slots=True)
class Labelled:
    """Encoded texts with class numbers."""

    rows: Sequence[Encoded]
    labels: Sequence[int]
    redraw: Callable[[int, int], Encoded] | None = None
    """(place, epoch) -> the row to train on in that epoch, for methods that change the texts."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What a run ends with, besides the weights in the model."""

    history: list[dict[str, float]]
    """One dict an epoch: `epoch`, `loss` and, with a dev set, `dev_accuracy`."""
    weights: dict[str, Tensor] | None = None
    """All weights, where the model in hand is spread over processes (FSDP, DeepSpeed) and cannot be used alone."""


def make_objective(
    encoder: Encoder, plan: NoisePlan, config: RsmiConfig, train_config: TrainConfig, mask_token_id: int, key: int = 0
) -> Objective:
    """Return the objective that `train_config.method` names."""
    if train_config.method in ("finetune", "safer", "advaug"):  # SAFER and AdvAug change the texts, not the loss
        return FinetuneObjective(encoder)
    ascent: dict[str, Any] = {
        "ascent_steps": train_config.ascent_steps,
        "step_size": train_config.ascent_step_size,
        "radius": train_config.ascent_radius,
        "initial_size": train_config.ascent_start,
    }
    if train_config.method == "freelb":
        return FreelbObjective(encoder, **ascent)
    if train_config.method == "infobert":
        return InfobertObjective(
            encoder,
            **ascent,
            bottleneck_weight=train_config.bottleneck_weight,
            anchor_weight=train_config.anchor_weight,
            anchor_low=train_config.anchor_low,
            anchor_high=train_config.anchor_high,
            key=derive(key, "critic"),
        )
    return RsmiObjective(
        encoder,
        plan,
        masking=config.masking,
        num_masks=config.num_masks,
        mask_token_id=mask_token_id,
        saliency_samples=config.saliency_samples,
        embedding_step=train_config.embedding_step,
        batch_size=train_config.batch_size,
    )


def run_training(
    encoder: Encoder,
    objective: Objective,
    train_config: TrainConfig,
    train: Labelled,
    dev: Labelled | None,
    pad_token_id: int,
    key: int,
    progress: bool,
    folder: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Train the encoder's model in place; with a dev set, end on the weights of its best epoch.

    Args:
        encoder: The classifier, its model as it is before the first update.
        objective: What each step minimises.
        train_config: Settings of training.
        train: What to train on.
        dev: What to choose the best epoch by.
        pad_token_id: Fills up short texts.
        key: Seed of everything random.
        progress: Whether to show a progress bar.
        folder: Where the run saves itself, and goes on from where it was if it finds itself there.
        settings: What else a run that goes on must agree in (JSON values).
        callbacks: Further callbacks of transformers.
    """
    if train_config.gradient_checkpointing and not encoder.model.supports_gradient_checkpointing:
        raise UnsupportedModelError(
            f"gradient_checkpointing: {type(encoder.model).__name__} does not support it; train with micro_batch_size"
        )
    _check_launch(train_config)
    with ExitStack() as stack:
        # without a folder only the best weights are written, by the first process
        held = folder or Path(stack.enter_context(TemporaryDirectory(prefix="rsmi-train-")))
        own = RunFolder(held, temporary=folder is None)
        lora = adapters(encoder.model, train_config.lora_rank, derive(key, "lora"))
        for context in (global_state_kept(), environment_kept(), quiet(), lora):
            stack.enter_context(context)
        updates_per_epoch = math.ceil(len(train.rows) / train_config.batch_size)
        texts = Examples(train.rows, train.labels, train.redraw)
        arguments = make_arguments(train_config, own.path, encoder, updates_per_epoch, dev is not None, key)
        order = EpochOrder(
            texts.lengths,
            key,
            train_config.batch_size if train_config.group_by_length else 0,
            arguments.per_device_train_batch_size * arguments.world_size if arguments.world_size > 1 else 1,
        )
        trainer = ObjectiveTrainer(
            model=encoder.model,
            args=arguments,
            train_dataset=texts,
            eval_dataset=None if dev is None else Examples(dev.rows, dev.labels),
            data_collator=Collator(pad_token_id),
            compute_metrics=_accuracy,
            callbacks=[
                EpochClock(order, texts, updates_per_epoch),
                *_callbacks(
                    train_config, dev is not None, progress, updates_per_epoch, folder is not None and not shards()
                ),
                *callbacks,
            ],
            objective=objective,
            criterion=make_criterion(
                train.labels,
                encoder.model.config.num_labels,
                train_config.balanced_classes,
                train_config.label_smoothing,
            ),
            key=key,
            order=order,
            folder=own,
        )
        for callback in (PrinterCallback, ProgressCallback):  # both write to stdout, which belongs to results
            trainer.remove_callback(callback)
        stack.callback(close_bars, trainer.callback_handler.callbacks)
        snapshot = _claim(trainer, own, {**(settings or {}), **_identity(train_config, train, dev, key)})
        trainer.train(resume_from_checkpoint=None if snapshot is None else str(snapshot))
        # accelerate leaves the model's forward in mixed precision; what is saved and loaded again has none
        trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_fp32_wrapper=False)
        whole = trainer.best_weights or whole_weights(encoder.model) if shards() else None
        if whole is None:
            _load_best(trainer, own, encoder)
        history = _history(trainer.state.log_history)
    weights = encoder.model.parameters() if whole is None else whole.values()
    if not all(bool(weight.isfinite().all()) for weight in weights):
        raise TrainingError("training diverged: a weight is not finite; lower learning_rate, or use precision='fp32'")
    encoder.model.eval()
    return Trained(history, whole)


def _load_best(trainer: ObjectiveTrainer, folder: RunFolder, encoder: Encoder) -> None:
    """Go back to the weights of the best epoch, which the first process has written."""
    if trainer.args.should_save and (best := folder.best()) is not None:
        read_model(best, "model", encoder.model)
    if trainer.args.world_size > 1:
        for parameter in encoder.model.parameters():
            broadcast(parameter.data)


def _check_launch(train_config: TrainConfig) -> None:
    """Refuse what cannot work in the way this process was launched."""
    if train_config.lora_rank and shards():
        raise ConfigError("lora_rank: expected 0 under FSDP and DeepSpeed; adapters are small enough for torchrun")
    several_backwards = train_config.method in ("freelb", "infobert")
    if several_backwards and os.environ.get("ACCELERATE_USE_DEEPSPEED", "").lower() == "true":
        raise ConfigError(
            f"method {train_config.method!r}: expected a launch without DeepSpeed, which allows one backward pass an "
            "update; launch with torchrun, or with FSDP (configs/fsdp.yaml)"
        )


def _claim(trainer: ObjectiveTrainer, folder: RunFolder, settings: dict[str, Any]) -> Path | None:
    """Let the first process look for a snapshot to go on from, and tell the others what came of it."""
    found: Path | RsmiError | None = None
    if trainer.args.should_save:
        try:
            found = folder.claim(settings)
            if found is not None:
                check(found)  # says so at once if a file is damaged
        except RsmiError as error:
            found = error
    found = from_first(found)
    if isinstance(found, RsmiError):
        raise found
    return found


def _identity(train_config: TrainConfig, train: Labelled, dev: Labelled | None, key: int) -> dict[str, Any]:
    """Return what must be the same for a run to go on as if it had never stopped."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (train, dev):
        for row, label in zip(part.rows, part.labels, strict=True) if part is not None else ():
            digest.update(repr((row.ids, row.type_ids, label)).encode())
        digest.update(b"|")
    values = train_config.to_dict()
    for name in ("save_every", "report_to"):  # what a run tells of itself changes nothing in it
        del values[name]
    return {"train_config": values, "texts": digest.hexdigest(), "key": key, "processes": count()}


def _callbacks(
    train_config: TrainConfig, has_dev: bool, progress: bool, updates_per_epoch: int, saves: bool
) -> list[TrainerCallback]:
    callbacks: list[TrainerCallback] = [ProgressBar(train_config.method)] if progress else []
    if saves:
        callbacks.append(SaveSchedule(updates_per_epoch, train_config.save_every))
    if train_config.patience is not None:
        if not has_dev:
            raise ConfigError("patience: expected a dev set to stop by, got none; set dev_fraction or pass dev texts")
        callbacks.append(Patience(train_config.patience))
    return callbacks


def _accuracy(prediction: EvalPrediction) -> dict[str, float]:
    right = np.asarray(prediction.predictions).argmax(-1) == np.asarray(prediction.label_ids)
    return {"accuracy": float(right.mean())}


def _history(log: Sequence[dict[str, Any]]) -> list[dict[str, float]]:
    epochs: dict[int, dict[str, float]] = {}
    for entry in log:
        if "loss" in entry or "eval_accuracy" in entry:
            number = math.ceil(entry["epoch"] - 1e-6)
            epoch = epochs.setdefault(number, {"epoch": number})
            if "loss" in entry:
                epoch["loss"] = float(entry["loss"])
            if "eval_accuracy" in entry:
                epoch["dev_accuracy"] = float(entry["eval_accuracy"])
    return [epochs[number] for number in sorted(epochs)]
