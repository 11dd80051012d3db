"""Encoded texts -> trained weights in place, and the history of the run."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from accelerate import PartialState
from transformers import EarlyStoppingCallback, EvalPrediction, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from rsmi.config import RsmiConfig, TrainConfig
from rsmi.errors import ConfigError, TrainingError, UnsupportedModelError
from rsmi.method.encoder import Encoder
from rsmi.method.noise import NoisePlan
from rsmi.method.pretrained import quiet
from rsmi.method.tokens import Encoded
from rsmi.seeds import derive, global_state_kept
from rsmi.training.criterion import make_criterion
from rsmi.training.features import Collator, Examples
from rsmi.training.objective import Objective
from rsmi.training.objective_finetune import FinetuneObjective
from rsmi.training.objective_freelb import FreelbObjective
from rsmi.training.objective_rsmi import RsmiObjective
from rsmi.training.progress import ProgressBar
from rsmi.training.trainer import ObjectiveTrainer


@dataclass(frozen=True, slots=True)
class Labelled:
    """Encoded texts with class numbers."""

    rows: Sequence[Encoded]
    labels: Sequence[int]


def make_objective(
    encoder: Encoder, plan: NoisePlan, config: RsmiConfig, train_config: TrainConfig, mask_token_id: int
) -> Objective:
    """Return the objective that `train_config.method` names."""
    if train_config.method == "finetune":
        return FinetuneObjective(encoder)
    if train_config.method == "freelb":
        return FreelbObjective(
            encoder,
            ascent_steps=train_config.ascent_steps,
            step_size=train_config.ascent_step_size,
            radius=train_config.ascent_radius,
            initial_size=train_config.ascent_start,
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
) -> list[dict[str, float]]:
    """Train the encoder's model in place; with a dev set, end on the weights of its best epoch.

    Returns:
        One dict an epoch: `epoch`, `loss` and, with a dev set, `dev_accuracy`.
    """
    if train_config.gradient_checkpointing and not encoder.model.supports_gradient_checkpointing:
        raise UnsupportedModelError(
            f"gradient_checkpointing: {type(encoder.model).__name__} does not support it; train with micro_batch_size"
        )
    with TemporaryDirectory(prefix="rsmi-train-") as folder, global_state_kept(), _environment_kept(), quiet():
        trainer = ObjectiveTrainer(
            model=encoder.model,
            args=_arguments(train_config, Path(folder), encoder, len(train.rows), dev is not None, key),
            train_dataset=Examples(train.rows, train.labels),
            eval_dataset=None if dev is None else Examples(dev.rows, dev.labels),
            data_collator=Collator(pad_token_id),
            compute_metrics=_accuracy,
            callbacks=_callbacks(train_config, dev is not None, progress),
            objective=objective,
            criterion=make_criterion(
                train.labels,
                encoder.model.config.num_labels,
                train_config.balanced_classes,
                train_config.label_smoothing,
            ),
            key=key,
            group_by_length=train_config.group_by_length,
        )
        for callback in (PrinterCallback, ProgressCallback):  # both write to stdout, which belongs to results
            trainer.remove_callback(callback)
        trainer.train()
        # accelerate leaves the model's forward in mixed precision; what is saved and loaded again has none
        trainer.accelerator.unwrap_model(trainer.model_wrapped, keep_fp32_wrapper=False)
        history = _history(trainer.state.log_history)
    finite = all(bool(parameter.isfinite().all()) for parameter in encoder.model.parameters())
    if not finite or not all(math.isfinite(epoch.get("loss", 0.0)) for epoch in history):
        raise TrainingError("training diverged: the loss is not finite; lower learning_rate, or use precision='fp32'")
    encoder.model.eval()
    return history


def _callbacks(train_config: TrainConfig, has_dev: bool, progress: bool) -> list[TrainerCallback]:
    callbacks: list[TrainerCallback] = [ProgressBar(train_config.method)] if progress else []
    if train_config.patience is not None:
        if not has_dev:
            raise ConfigError("patience: expected a dev set to stop by, got none; set dev_fraction or pass dev texts")
        callbacks.append(EarlyStoppingCallback(early_stopping_patience=train_config.patience))
    return callbacks


@contextmanager
def _environment_kept() -> Iterator[None]:
    """Restore the variables in which transformers before 5 hands the precision of a run to accelerate."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("ACCELERATE_") and name not in before]:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("ACCELERATE_")})


def _arguments(
    train_config: TrainConfig, folder: Path, encoder: Encoder, num_texts: int, has_dev: bool, key: int
) -> TrainingArguments:
    processes = PartialState().num_processes
    micro = train_config.micro_batch_size or train_config.batch_size // processes
    steps, rest = divmod(train_config.batch_size, max(1, micro * processes))
    if rest or steps < 1 or micro < 1:
        raise ConfigError(
            f"batch_size: expected a multiple of {processes} processes x {micro} texts, got {train_config.batch_size}"
        )
    updates = train_config.epochs * math.ceil(num_texts / train_config.batch_size)
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=train_config.epochs,
        learning_rate=train_config.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=round(train_config.warmup_ratio * updates),
        weight_decay=train_config.weight_decay,
        max_grad_norm=train_config.max_grad_norm,
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=max(micro, 32),
        gradient_accumulation_steps=steps,
        gradient_checkpointing=train_config.gradient_checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if train_config.gradient_checkpointing else None,
        bf16=train_config.precision == "bf16",
        fp16=train_config.precision == "fp16",
        eval_strategy="epoch" if has_dev else "no",
        save_strategy="epoch" if has_dev else "no",
        save_total_limit=1,
        save_only_model=True,
        load_best_model_at_end=has_dev,
        metric_for_best_model="accuracy" if has_dev else None,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=encoder.device.type == "cuda",
        use_cpu=encoder.device.type == "cpu",
        seed=key % 2**31,
        data_seed=derive(key, "order") % 2**31,
    )
    if arguments.n_gpu > 1:
        # DataParallel would copy the model without its hooks; several GPUs are used by launching several processes
        arguments._n_gpu = 1
    return arguments


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
