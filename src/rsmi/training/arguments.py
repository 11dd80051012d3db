"""`TrainConfig` -> transformers' `TrainingArguments`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformers import TrainingArguments
from transformers.integrations import get_available_reporting_integrations
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from rsmi.config import TrainConfig
from rsmi.errors import ConfigError, MissingResourceError
from rsmi.method.encoder import Encoder
from rsmi.settings import check_choice
from rsmi.training.processes import count, shards


@contextmanager
def environment_kept() -> Iterator[None]:
    """Restore the variables in which transformers before 5 hands the precision of a run to accelerate."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith("ACCELERATE_") and name not in before]:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if name.startswith("ACCELERATE_")})


def make_arguments(
    train_config: TrainConfig, folder: Path, encoder: Encoder, updates_per_epoch: int, has_dev: bool, key: int
) -> TrainingArguments:
    """Return the settings as transformers wants them."""
    processes = count()
    micro = train_config.micro_batch_size or train_config.batch_size // processes
    steps, rest = divmod(train_config.batch_size, max(1, micro * processes))
    if rest or steps < 1 or micro < 1:
        raise ConfigError(
            f"batch_size: expected a multiple of {processes} processes x {micro} texts, got {train_config.batch_size}"
        )
    updates = train_config.epochs * updates_per_epoch
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
        save_strategy="no",  # `SaveSchedule` asks for snapshots
        metric_for_best_model="accuracy" if has_dev else None,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,
        report_to=train_config.report_to,
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=encoder.device.type == "cuda",
        use_cpu=encoder.device.type == "cpu" and not shards(),
        deepspeed=os.environ.get("ACCELERATE_DEEPSPEED_CONFIG_FILE"),  # set by accelerate launch
        seed=key % 2**31,
    )
    for name in arguments.report_to:
        _check_reports(name)
    if arguments.n_gpu > 1:
        # DataParallel would copy the model without its hooks; several GPUs are used by launching several processes
        arguments._n_gpu = 1
    return arguments


def _check_reports(report_to: str) -> None:
    """Refuse a place for the numbers of a run that transformers does not know, or that is not installed."""
    check_choice("report_to", report_to, list(INTEGRATION_TO_CALLBACK))
    if report_to not in ("flyte", *get_available_reporting_integrations()):  # transformers does not look for flyte
        raise MissingResourceError(
            f"report_to: expected {report_to} to be installed, got none; pip install {report_to}"
        )
