"""`rsmi train`: labelled texts -> a model folder."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.advaug import generate_added
from rsmi.app.attack import DataName
from rsmi.app.completion import ATTACKS, METHODS, PROFILES, VARIANTS, among, presets
from rsmi.app.exits import interruptible
from rsmi.app.options import Device, Dtype, Json, LabelColumn, PairColumn, TextColumn, parse_settings

if TYPE_CHECKING:
    from rsmi.config import RsmiConfig
    from rsmi.data import TextDataset
    from rsmi.presets import Preset
    from rsmi.records import TextInput


_SHORT = 30  # words; between the sentences of mr, which masks cost accuracy, and the texts of ag_news


def train(
    data: DataName,
    out: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    base: Annotated[
        str | None, typer.Option("--base", help="minilm (the default), a model folder or a hub id.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset", help="Settings by name: paper/roberta-base/imdb, minilm/mr, ...", autocompletion=presets
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            help="Settings of rsmi for those who do not tune: fast, balanced or robust.",
            autocompletion=among(PROFILES),
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="rsmi, or a baseline: finetune, freelb, infobert, safer, advaug.",
            autocompletion=among(METHODS),
        ),
    ] = "rsmi",
    variant: Annotated[
        str | None,
        typer.Option(
            "--variant",
            help="rsmi, no-mask, no-two-step, rm, gm, safer, ranmask, deletion, plain; by default what fits --method.",
            autocompletion=among(VARIANTS),
        ),
    ] = None,
    noise_std: Annotated[float | None, typer.Option("--noise-std", help="Std of the noise (paper: sigma).")] = None,
    noise_layers: Annotated[
        str | None, typer.Option("--noise-layers", help="A count, or layer numbers from 0: 0,4,8.")
    ] = None,
    num_masks: Annotated[int | None, typer.Option("--num-masks", help="Tokens masked per copy (paper: M).")] = None,
    max_length: Annotated[int | None, typer.Option("--max-length", help="Tokens read of a text.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the data.")] = None,
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", help="Peak learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="Texts per update.")] = None,
    group_by_length: Annotated[
        bool, typer.Option("--group-by-length", help="Texts of similar length into one update: faster.")
    ] = False,
    synonyms: Annotated[
        Path | None, typer.Option("--synonyms", help='For safer: a JSON file such as {"good": ["fine", "great"]}.')
    ] = None,
    added: Annotated[
        str | None, typer.Option("--added", help="For advaug: adversarial texts with their true labels; like DATA.")
    ] = None,
    attack: Annotated[
        str,
        typer.Option(
            "--attack",
            help="For advaug without --added: the attack that makes the texts.",
            autocompletion=among(ATTACKS),
        ),
    ] = "textfooler",
    attack_num: Annotated[
        int, typer.Option("--attack-num", min=1, help="For advaug without --added: training texts attacked.")
    ] = 1000,
    lora_rank: Annotated[
        int | None, typer.Option("--lora-rank", help="Train adapters of this rank instead of all weights.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a run that was interrupted.")] = False,
    save_every: Annotated[
        int | None, typer.Option("--save-every", help="Save the run every so many updates, not only every epoch.")
    ] = None,
    more_settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of RsmiConfig or TrainConfig; repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=2, help="Train on a random sample of this many.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample, the head, the order and the noise.")] = 0,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    device: Device = None,
    dtype: Dtype = "float32",
    as_json: Json = False,
) -> None:
    """Train a classifier and save it to a folder."""
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import load_data
    from rsmi.method.checkpoint import check_target
    from rsmi.settings import updated
    from rsmi.training.processes import is_first
    from rsmi.training.snapshot import RunFolder

    default = _starting_point(method, preset)
    base = base or default.base
    config = _asked_config(default, profile, variant, method)
    settings = {
        "noise_std": noise_std,
        "noise_layers": None if noise_layers is None else _layers(noise_layers),
        "num_masks": num_masks,
        "num_candidates": None if num_masks is None else max(num_masks, config.num_candidates),
        "max_length": max_length,
    }
    training = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "group_by_length": group_by_length or None,
        "lora_rank": lora_rank,
        "save_every": save_every,
    }
    more_config, more_training = _sorted(parse_settings(more_settings))
    config = updated(config, **{**_given(settings), **more_config})
    train_config = updated(default.train_config, **{**_given(training), **more_training})

    columns: dict[str, Any] = {"text_column": text_column, "pair_column": pair_column, "label_column": label_column}
    parts = [load_data(data, split, **columns, seed=seed) for split in ("train", "dev")]
    more = None if added is None else load_data(added, "all", **columns)
    if limit is not None:
        parts = [parts[0].take(min(limit, len(parts[0])), seed), parts[1].take(min(limit, len(parts[1])), seed)]
    _check_classes(data, parts[0])
    check_target(out)  # now, not after hours of training
    folder = _run_folder(out, resume)
    classifier = RsmiClassifier(
        base, config, train_config, synonyms=synonyms, seed=seed, device=device, dtype=dtype, progress=True
    )
    words = _median_words(parts[0].texts)
    if is_first() and config.masking != "none" and config.num_masks >= words:
        typer.echo(
            f"note: {config.num_masks} masks hide every word of half of these texts, which have {words:g} or fewer; "
            "choose fewer with --num-masks",
            err=True,
        )
    if is_first() and config.masking == "gradient" and words < _SHORT:
        typer.echo(
            "note: texts this short lose accuracy when their most salient words are masked, more than by the noise "
            "(docs/training.md); --variant no-mask leaves masks out",
            err=True,
        )
    if is_first():
        typer.echo(f"{len(parts[0])} training and {len(parts[1])} dev texts: {parts[0].source}", err=True)
    with interruptible("the same command with --resume goes on from the last save"):
        if method == "advaug" and more is None:
            more = generate_added(classifier, parts[0], parts[1], out, attack, attack_num)
        classifier.fit(
            parts[0].texts,
            parts[0].labels,
            dev=(parts[1].texts, parts[1].labels),
            added=None if more is None else (more.texts, more.labels),
            folder=folder,
        )
    classifier.save_pretrained(out)
    if not is_first():
        return
    RunFolder(folder).clear()
    best = max(epoch["dev_accuracy"] for epoch in classifier.training_["history"])
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "dev_accuracy": best, **classifier.training_}))
    else:
        typer.echo(f"saved {out}: {method} on {base}, dev accuracy {best:.3f} (n = {len(parts[1])}, best epoch)")


def _median_words(texts: Sequence[TextInput]) -> float:
    return statistics.median(len((text if isinstance(text, str) else " ".join(text)).split()) for text in texts)


def _run_folder(out: Path, resume: bool) -> Path:
    """Return the folder beside `out` where the run saves itself, after making sure that no other run is lost."""
    from rsmi.errors import CheckpointError
    from rsmi.training.processes import from_first
    from rsmi.training.snapshot import RunFolder

    folder = out.resolve().with_name(f"{out.resolve().name}.run")
    left_over = from_first(RunFolder(folder).newest() is not None)
    if left_over and not resume:
        raise CheckpointError(
            f"{folder}: holds a run that was interrupted; pass --resume to go on with it, or remove the folder"
        )
    if resume and not left_over:
        typer.echo(f"nothing to resume at {folder}: starting from the beginning", err=True)
    return folder


def _starting_point(method: str, preset: str | None) -> Preset:
    """Return what the options then change: a preset, or the defaults of `method` on the embedded encoder."""
    from rsmi.config import RsmiConfig, TrainConfig
    from rsmi.presets import Preset, asked_as, load_preset

    train_config = TrainConfig.from_dict({"method": method})
    if preset is not None:
        return load_preset(preset, train_config.method)
    config = RsmiConfig.variant(asked_as(train_config.method))
    return Preset(name="default", base="minilm", data="", config=config, train_config=train_config)


def _asked_config(default: Preset, profile: str | None, variant: str | None, method: str) -> RsmiConfig:
    """Return the settings of a profile, or those to start from as the variant."""
    from rsmi.config import RsmiConfig
    from rsmi.errors import ConfigError

    if profile is None:
        return default.config if variant is None else default.config.as_variant(variant)
    others = {"--preset": default.name != "default", f"--variant {variant}": variant is not None}
    others[f"--method {method}"] = method != "rsmi"
    for other in (name for name, given in others.items() if given):
        raise ConfigError(f"--profile: expected it without {other}, which settles the same things; choose one")
    return RsmiConfig.profile(profile)


def _sorted(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part the settings of --set: those of the method, those of training."""
    from rsmi.config import RsmiConfig, TrainConfig
    from rsmi.errors import ConfigError
    from rsmi.settings import nearest

    own, training = RsmiConfig.__dataclass_fields__, TrainConfig.__dataclass_fields__
    unknown = [name for name in given if name not in own and name not in training]
    if unknown:
        raise ConfigError(
            f"--set: expected a setting of RsmiConfig ({', '.join(own)}) or TrainConfig ({', '.join(training)}); got "
            f"{unknown[0]!r}{nearest(unknown[0], [*own, *training])}"
        )
    parts = [{name: value for name, value in given.items() if name in names} for names in (own, training)]
    return parts[0], parts[1]


def _check_classes(data: str, rows: TextDataset) -> None:
    """Refuse texts that are all of one class, naming the data; the classifier does not know where they are from."""
    from rsmi.errors import LabelError

    if len(rows.classes) < 2:
        raise LabelError(
            f"{data}: expected texts of two or more classes, got {list(rows.classes)} alone; add texts of another "
            "class, or choose another label_column (--label-column)"
        )


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _layers(text: str) -> int | tuple[int, ...]:
    from rsmi.errors import ConfigError

    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--noise-layers: expected a count or numbers such as 0,4,8; got {text!r}") from None
    return numbers if "," in text else numbers[0]
