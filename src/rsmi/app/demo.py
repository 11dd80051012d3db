"""`rsmi demo`: train an undefended and an RSMI classifier on the embedded default, attack both and compare them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.exits import check_writable, interruptible
from rsmi.writing import write_text

if TYPE_CHECKING:
    from rsmi.attacks.base import Attack
    from rsmi.classifier import RsmiClassifier
    from rsmi.data import TextDataset
    from rsmi.records import Accuracy

SEED = 0
_TRAIN, _DEV, _TEST = 1500, 300, 200
_ATTACKED = 20
_FRESH_DRAWS = 20
_MASKS = 1  # of a sentence of some twenty words; the paper's two to four are for longer texts
_TRAINING = {"epochs": 3, "learning_rate": 1e-4, "batch_size": 16, "group_by_length": True}  # chosen on the dev split
_NAMES = {"finetune": "fine-tuned", "rsmi": "RSMI"}


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for models, records and report.")] = Path("runs/demo"),
    scale: Annotated[
        float, typer.Option("--scale", min=0.01, max=1.0, help="Share of the texts to use; below 1 for a quick look.")
    ] = 1.0,
) -> None:
    """Train a plain and an RSMI classifier on movie reviews, attack both and compare them; minutes on a laptop."""
    from rsmi.data import load_data

    check_writable(out / "report.html")
    parts = {"train": _TRAIN, "dev": _DEV, "test": _TEST}
    sets = {split: load_data("mr", split).take(max(20, int(size * scale)), SEED) for split, size in parts.items()}
    with interruptible(f"what is done is in {out}; the same command goes on from there"):
        _run(out, sets)


def _run(out: Path, sets: dict[str, TextDataset]) -> None:
    """Train, compare, attack and tell."""
    from rsmi.app.demo_report import report_markdown, show
    from rsmi.evaluation.running import versions
    from rsmi.evaluation.runs import Run
    from rsmi.report import Report

    sentences = [json.loads(line) for line in _sentences().splitlines()]
    plain, rsmi = (_trained(method, out / method, sets["train"], sets["dev"]) for method in _NAMES)
    attack = _textfooler()
    sample = sets["test"].head(_ATTACKED)
    results, runs = {}, []
    for name, classifier in (("fine-tuned", plain), ("RSMI", rsmi)):
        results[name] = _compare(name, classifier, sets["test"], sentences)
        runs.append(out / f"textfooler-{name}.jsonl")
        results[name] |= _attacked(name, classifier, attack, sample, runs[-1])
    rsmi.config = rsmi.config_.as_variant("no-mask")  # the same weights asked without masks: what masking costs
    results["RSMI, no masks"] = _compare("RSMI, no masks", rsmi, sets["test"], sentences)
    summary = {
        "n_train": len(sets["train"]),
        "n_test": len(sets["test"]),
        "n_pairs": len(sentences),
        "n_attacked": len(sample),
        "seed": SEED,
        "source": sets["test"].source,
        "models": {name: result["accuracy"] for name, result in results.items()},
        "attacks": {name: result["attack"] for name, result in results.items() if "attack" in result},
        "resources": dict(attack().resources),
        "versions": versions(),
    }
    records = [record for result in results.values() for record in result["records"]]
    write_text(out / "records.jsonl", "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    write_text(out / "report.md", report_markdown(summary, records))
    show(summary, records, [record for result in results.values() for record in result.get("attacked", ())])
    Report.from_runs([Run.read(file) for file in runs]).save(out / "report.html")
    typer.echo(f"models, records and report.md are in {out}; the attacks, text by text: {out / 'report.html'}")


def _trained(method: str, folder: Path, train: TextDataset, dev: TextDataset) -> RsmiClassifier:
    """Train and save, or load what an earlier run of the same demo left."""
    from rsmi.classifier import RsmiClassifier
    from rsmi.config import RsmiConfig, TrainConfig
    from rsmi.method.checkpoint import is_checkpoint

    config = RsmiConfig.variant("plain") if method == "finetune" else RsmiConfig(num_masks=_MASKS)
    train_config = TrainConfig.from_dict({"method": method, **_TRAINING})
    if is_checkpoint(folder):
        saved = RsmiClassifier.from_pretrained(folder, seed=SEED, progress=True)
        same = saved.training_.get("train_config") == train_config.to_dict() and saved.config_ == config
        if same and saved.training_.get("num_texts") == len(train):
            typer.echo(
                f"{folder}: trained by an earlier run with the same settings; remove it to train again", err=True
            )
            return saved
    typer.echo(f"training {_NAMES[method]} on {len(train)} movie-review sentences", err=True)
    classifier = RsmiClassifier("minilm", config, train_config, seed=SEED, progress=True)
    classifier.fit(train.texts, train.labels, dev=(dev.texts, dev.labels))
    classifier.save_pretrained(folder)
    return classifier


def _compare(
    name: str, classifier: RsmiClassifier, test: TextDataset, sentences: list[dict[str, str]]
) -> dict[str, Any]:
    from rsmi.evaluation.accuracy import count_correct, measure_accuracy

    labels = [sentence["label"] for sentence in sentences]
    clean = classifier.explain([sentence["text"] for sentence in sentences])
    changed = classifier.explain([sentence["perturbed"] for sentence in sentences])
    accuracy: dict[str, Accuracy] = {
        "test": measure_accuracy(classifier, test.texts, test.labels),
        "clean": count_correct([prediction.label for prediction in clean], labels),
        "perturbed": count_correct([prediction.label for prediction in changed], labels),
    }
    records = [
        {
            "model": name,
            "gold": label,
            "original": before.to_dict(),
            "perturbed": after.to_dict(),
            "flipped": before.label == label != after.label,
        }
        for label, before, after in zip(labels, clean, changed, strict=True)
    ]
    return {"accuracy": {name: value.to_dict() for name, value in accuracy.items()}, "records": records}


def _textfooler() -> Callable[..., Attack]:
    """Return what makes the attack; the word vectors it needs are built the first time."""
    from rsmi.attacks.textfooler import TextFooler
    from rsmi.errors import MissingResourceError
    from rsmi.resources.vector_build import build_vectors
    from rsmi.resources.vectors import WordVectors

    try:
        vectors = WordVectors.open()
    except MissingResourceError:
        typer.echo("building counter-fitted word vectors for TextFooler (once)", err=True)
        vectors = build_vectors(progress=True)
    return partial(TextFooler, vectors=vectors)


def _attacked(
    name: str, classifier: RsmiClassifier, attack: Callable[..., Attack], sample: TextDataset, records_file: Path
) -> dict[str, Any]:
    """Attack a model, or go on with what an earlier run of the same demo left."""
    from rsmi.app.attack import attack_shown
    from rsmi.errors import DataError
    from rsmi.evaluation.protocols import set_up
    from rsmi.evaluation.robustness import Robustness

    classifier.progress = False  # an attack has a bar of its own
    setup = set_up("paper", classifier, attack, fresh_draws=_FRESH_DRAWS)
    typer.echo(f"attacking {name} with TextFooler on {len(sample)} test sentences", err=True)
    try:
        records = list(attack_shown(classifier, name, setup, sample, records_file, SEED, explained=True))
    except DataError:  # left by a demo of other settings
        records_file.unlink()
        records = list(attack_shown(classifier, name, setup, sample, records_file, SEED, explained=True))
    return {"attack": Robustness.of(records).to_dict(), "attacked": [(name, record) for record in records]}


def _sentences() -> str:
    return (files("rsmi.app") / "demo_sentences.jsonl").read_text(encoding="utf-8")
