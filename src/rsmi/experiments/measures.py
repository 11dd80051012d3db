"""What is measured about models besides attacks: accuracy, layers, luck, time, sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from rsmi.classifier import RsmiClassifier
from rsmi.errors import DataError
from rsmi.evaluation.accuracy import measure_accuracy
from rsmi.evaluation.analyses import fooled_pairs, inference_times, layer_distances, stability_of
from rsmi.evaluation.running import versions
from rsmi.evaluation.timing import training_times
from rsmi.experiments.grids import CLEAN_TEXTS
from rsmi.experiments.machine import machine
from rsmi.experiments.results import Results
from rsmi.experiments.specs import Attacked, Changes, Measured, Trained
from rsmi.experiments.training import classifier_for
from rsmi.opening import open_classifier

_REPEATS, _TRAINING_REPEATS = 5, 3


def measure(step: Measured, results: Results, models: Path) -> dict[str, Any]:
    """Measure what a step asks for; times mean little without the machine that took them."""
    return {**_MEASURES[step.what](step, results, models), "machine": machine(), "versions": versions()}


def _accuracy(step: Measured, results: Results, models: Path) -> dict[str, Any]:
    ((model, own),) = step.pairs
    rows = results.scale.load(model.data, step.split)
    rows = rows.take(min(len(rows), results.scale.test_texts or len(rows)), 0)
    found = measure_accuracy(_open(model, own, models), rows.texts, rows.labels)
    return {**found.to_dict(), "data": rows.name, "source": rows.source, "fingerprint": rows.fingerprint}


def _layers(step: Measured, results: Results, models: Path) -> dict[str, Any]:
    cell = _attacked(step)
    pairs = fooled_pairs(results.run(cell).records)
    if not pairs:
        return {"pairs": 0, "layers": []}
    classifier = _open(cell.model, cell.changes, models)
    return {"pairs": len(pairs), "layers": [own.to_dict() for own in layer_distances(classifier, pairs)]}


def _stability(step: Measured, results: Results, models: Path) -> dict[str, Any]:
    cell, runs = _attacked(step), results.scale.runs
    classifier = _open(cell.model, cell.changes, models, results.scale.backend)  # what fooled it was found by that
    rows = results.scale.load(cell.model.data, "test")
    rows = rows.take(min(len(rows), CLEAN_TEXTS), 0)
    found = stability_of(classifier, results.run(cell).records, runs, _shown, (rows.texts, rows.labels))
    return {"runs": runs, **{name: own.to_dict() for name, own in found.items()}}


def _shown(name: str, draws: Sequence[int]) -> Iterable[int]:
    return tqdm(draws, f"{name} texts", unit="run", dynamic_ncols=True)


def _training_time(step: Measured, results: Results, _models: Path) -> dict[str, Any]:
    scale = results.scale
    rows = results.scale.load(step.models[0].data, "train")
    rows = rows.take(min(len(rows), scale.timed), 0)
    classifiers = {str(model.method): classifier_for(model, scale) for model in step.models}
    found = training_times(classifiers, rows.texts, rows.labels, _TRAINING_REPEATS)
    return {"texts": len(rows), "times": [own.to_dict() for own in found]}


def _inference_time(step: Measured, results: Results, models: Path) -> dict[str, Any]:
    rows = results.scale.load(step.models[0].data, step.split)
    rows = rows.take(min(len(rows), results.scale.timed), 0)
    classifiers = {}
    for place, (model, own) in enumerate(step.pairs):  # one name a row of the table, in its order
        classifiers[f"{place} {model.method}"] = _open(model, own, models)
    found = inference_times(classifiers, rows.texts, _REPEATS)
    return {"texts": len(rows), "times": [own.to_dict() for own in found]}


def _splits(step: Measured, results: Results, _models: Path) -> dict[str, Any]:
    parts = {split: results.scale.load(step.data, split) for split in ("train", "dev", "test")}
    return {
        **{split: len(rows) for split, rows in parts.items()},
        "classes": len(parts["train"].classes),
        "source": parts["train"].source,
    }


_MEASURES: dict[str, Callable[[Measured, Results, Path], dict[str, Any]]] = {
    "accuracy": _accuracy,
    "layers": _layers,
    "stability": _stability,
    "training-time": _training_time,
    "inference-time": _inference_time,
    "splits": _splits,
}


def _attacked(step: Measured) -> Attacked:
    if step.attacked is None:
        raise DataError(f"{step.what}: expected the run whose texts are measured, got none")
    return step.attacked


def _open(model: Trained, own: Changes, models: Path, backend: str = "torch") -> RsmiClassifier:
    return open_classifier(str(models / model.name), config=dict(own), seed=0, backend=backend, progress=False)
