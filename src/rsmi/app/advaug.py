"""AdvAug's first half: fine-tune a victim, attack it on its training texts, keep what fooled it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rsmi.app.augment import write_adversarial

if TYPE_CHECKING:
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset


def generate_added(
    classifier: RsmiClassifier,
    train: TextDataset,
    dev: TextDataset,
    out: Path,
    attack_name: str,
    num: int,
) -> TextDataset:
    """Return the adversarial texts of a plainly fine-tuned model, made with the settings of `classifier`.

    The victim and the texts stay beside `out`, and an interrupted run goes on with them.

    Args:
        classifier: The classifier to be trained on them; its base, settings and seed are the victim's.
        train: Training texts; `num` of them are attacked.
        dev: Chooses the victim's best epoch.
        out: Folder of the classifier; the victim is at OUT.victim, the texts at OUT.added.jsonl.
        attack_name: See `rsmi attack`.
        num: Texts attacked.
    """
    from rsmi.attacks.catalogue import make_attack
    from rsmi.classifier import RsmiClassifier
    from rsmi.config import TrainConfig
    from rsmi.data import load_data
    from rsmi.errors import CheckpointError, ConfigError, TrainingError
    from rsmi.method.checkpoint import is_checkpoint
    from rsmi.training.processes import count

    if count() > 1:
        raise ConfigError(
            "advaug: expected --added when several processes train; make the texts first with rsmi augment, in one"
        )
    attack = make_attack(attack_name)  # now, not after the victim is trained
    folder, added = _beside(out, "victim"), _beside(out, "added.jsonl")
    settings = replace(classifier.train_config or TrainConfig(), method="finetune")
    if not is_checkpoint(folder):
        typer.echo(f"advaug 1/3: fine-tuning the model to be attacked, {folder}", err=True)
        victim = RsmiClassifier(
            classifier.base,
            classifier.config_.as_variant("plain"),
            settings,
            seed=classifier.seed,
            device=classifier.device,
            dtype=classifier.dtype,
            progress=True,
        )
        victim.fit(train.texts, train.labels, dev=(dev.texts, dev.labels), folder=_beside(out, "victim.run"))
        victim.save_pretrained(folder)
    victim = RsmiClassifier.from_pretrained(
        folder, seed=classifier.seed, device=classifier.device, dtype=classifier.dtype, progress=False
    )
    if (victim.training_.get("train_config"), victim.training_.get("num_texts")) != (settings.to_dict(), len(train)):
        raise CheckpointError(f"{folder}: expected a victim trained with these settings and texts; remove it")
    seed = classifier.seed or 0
    sample = train.take(min(num, len(train)), seed)
    typer.echo(f"advaug 2/3: {attack_name} on {len(sample)} training texts", err=True)
    counts = write_adversarial(victim, str(folder), attack, sample, added, seed)
    if not counts["added"]:
        raise TrainingError(
            f"advaug: none of {counts['attacked']} attacked texts fooled {folder}, so there is nothing to add; attack "
            "more texts (--attack-num) or with another --attack"
        )
    typer.echo(f"advaug 3/3: training with {counts['added']} adversarial texts more, {added}", err=True)
    return load_data(str(added), "all")


def _beside(out: Path, suffix: str) -> Path:
    return out.resolve().with_name(f"{out.resolve().name}.{suffix}")
