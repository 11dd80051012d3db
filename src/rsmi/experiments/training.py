"""A model of the paper -> its weights in a folder; an interrupted training goes on."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rsmi.classifier import RsmiClassifier
from rsmi.data import TextDataset
from rsmi.evaluation.running import versions
from rsmi.experiments.machine import machine
from rsmi.experiments.results import Results
from rsmi.experiments.scale import Scale
from rsmi.experiments.specs import Trained, augmenting
from rsmi.method.checkpoint import is_checkpoint
from rsmi.method.substitution import SynonymTable
from rsmi.resources.vectors import WordVectors

_logger = logging.getLogger(__name__)
_DEV_TEXTS = 1000  # they choose an epoch, of a small scale


def classifier_for(model: Trained, scale: Scale) -> RsmiClassifier:
    """Return a classifier ready to be trained."""
    preset = scale.preset(model)
    return RsmiClassifier(
        scale.base(model),
        preset.config,
        preset.train_config,
        synonyms=_synonyms(scale) if preset.config.substitution else None,
        seed=model.seed,
        progress=True,
    )


def train(model: Trained, results: Results, folder: Path) -> dict[str, Any]:
    """Train a model into `folder` and return what is known of it; weights that are there already are kept.

    Every model of a data set sees the same texts: seeds differ in the head, the order and the noise.
    """
    scale = results.scale
    train_rows, dev_rows = _texts(model, scale)
    added = _added(model, results)
    idle = model.method == "advaug" and added is None
    classifier, seconds = classifier_for(replace(model, method="finetune") if idle else model, scale), None
    if is_checkpoint(folder):
        classifier = RsmiClassifier.from_pretrained(folder, seed=model.seed)
    else:
        started = time.perf_counter()
        classifier.fit(
            train_rows.texts,
            train_rows.labels,
            dev=(dev_rows.texts, dev_rows.labels),
            added=added,
            folder=folder.with_name(f"{folder.name}.run"),
        )
        seconds = round(time.perf_counter() - started, 1)
        classifier.save_pretrained(folder)
    history = classifier.training_["history"]
    return {
        "encoder": scale.encoders[model.encoder].label,
        "data": model.data,
        "source": train_rows.source,
        "method": model.method,
        "seed": model.seed,
        "training_texts": len(train_rows),
        "added_texts": 0 if added is None else len(added[0]),
        "dev_texts": len(dev_rows),
        "dev_accuracy": max(epoch["dev_accuracy"] for epoch in history),
        "fingerprint": classifier.fingerprint,
        "config": classifier.config_.to_dict(),
        "train_config": scale.preset(model).train_config.to_dict(),
        "seconds": seconds,
        "machine": machine(),
        "versions": versions(),
    }


def _texts(model: Trained, scale: Scale) -> tuple[TextDataset, TextDataset]:
    train_rows, dev_rows = (scale.load(model.data, split) for split in ("train", "dev"))
    texts = scale.texts_of(model.data)
    if texts is not None:
        train_rows = train_rows.take(min(texts, len(train_rows)), 0)
        dev_rows = dev_rows.take(min(_DEV_TEXTS, texts, len(dev_rows)), 0)
    return train_rows, dev_rows


def _added(model: Trained, results: Results) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """Return the adversarial texts of AdvAug and their true classes; None of other methods, and where there are none.

    Nothing to add leaves plain fine-tuning; an error would end a reproduction that has hours of other work left.
    """
    if model.method != "advaug":
        return None
    records = results.run(augmenting(model)).records
    fooled = [record for record in records if record.outcome == "succeeded"]
    if not fooled:
        _logger.warning(
            "%s: none of %d attacked texts fooled the victim: nothing to add, which leaves plain fine-tuning",
            model.name,
            len(records),
        )
        return None
    return tuple(record.adversarial for record in fooled), tuple(record.label for record in fooled)


def _synonyms(scale: Scale) -> SynonymTable:
    return _neighbours() if scale.synonyms is None else SynonymTable.from_dict(dict(scale.synonyms))


@lru_cache(maxsize=1)
def _neighbours() -> SynonymTable:
    """Return SAFER's table: near words in counter-fitted vectors."""
    vectors = WordVectors.open()
    return SynonymTable.from_vectors(vectors.words, vectors.vectors)
