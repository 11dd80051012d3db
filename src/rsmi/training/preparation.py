"""What a user hands to `fit` -> checked training and dev texts -> a trained model and the record of it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import TrainerCallback

from rsmi.config import Method, TrainConfig
from rsmi.data.splits import stratified_split
from rsmi.errors import ConfigError, LabelError, RsmiWarning
from rsmi.method.engine import Engine
from rsmi.method.inputs import as_classes, as_labelled, class_numbers
from rsmi.method.tokens import Encoded
from rsmi.records import Label, TextInput
from rsmi.seeds import derive
from rsmi.training.loop import Labelled, make_objective, run_training

_BEFORE = -1  # the epoch of words drawn once: the dev texts, which are not drawn anew


@dataclass(frozen=True, slots=True)
class Prepared:
    """Texts and class numbers, ready to be encoded."""

    classes: tuple[Label, ...]
    texts: list[TextInput]
    numbers: list[int]
    dev_texts: list[TextInput]
    dev_numbers: list[int]
    num_added: int
    """How many of the last training texts are adversarial ones."""


def prepare(
    texts: Any,
    labels: Any,
    dev: tuple[Any, Any] | None,
    added: tuple[Any, Any] | None,
    known_classes: Sequence[Label] | None,
    settings: TrainConfig,
    seed: int,
) -> Prepared:
    """Check everything, hold out a dev set unless one is given, and add adversarial texts to the rest."""
    if (settings.method == "advaug") != (added is not None):
        raise ConfigError(
            f"method {settings.method!r}: expected {'texts to add' if added is None else 'none to add'}; adversarial "
            "texts are added by method='advaug' and fit(..., added=(texts, labels)), or rsmi train --added FILE"
        )
    train_texts, train_labels = as_labelled(texts, labels)
    classes = as_classes(known_classes or sorted(set(train_labels)))
    numbers = class_numbers(train_labels, classes)
    _warn_of_rare_classes(classes, numbers)
    dev_texts, dev_numbers = list[TextInput](), list[int]()
    if dev is not None:
        dev_texts, dev_numbers = _labelled(*dev, classes, "dev texts")
    elif settings.dev_fraction > 0:
        kept, held_out = stratified_split(numbers, settings.dev_fraction, seed)
        dev_texts, dev_numbers = [train_texts[i] for i in held_out], [numbers[i] for i in held_out]
        train_texts, numbers = [train_texts[i] for i in kept], [numbers[i] for i in kept]
    num_added = 0
    if added is not None:
        added_texts, added_numbers = _labelled(*added, classes, "added texts")
        train_texts, numbers, num_added = train_texts + added_texts, numbers + added_numbers, len(added_texts)
    return Prepared(classes, train_texts, numbers, dev_texts, dev_numbers, num_added)


def train(
    engine: Engine,
    base: str,
    given: Prepared,
    settings: TrainConfig,
    seed: int,
    progress: bool,
    folder: Path | None,
    callbacks: Sequence[TrainerCallback],
) -> tuple[dict[str, Any], dict[str, Tensor] | None]:
    """Train the engine's model in place.

    Returns:
        The record of the training that is saved with a classifier; and all weights, where the engine's model is spread
        over processes and a fresh one must take them.
    """
    # whole forward passes only: weights spread over processes are gathered by the modules' own calls
    encoder, synonyms = replace(engine.loaded.encoder, stages=None), engine.synonyms
    trained = run_training(
        encoder,
        make_objective(encoder, engine.plan, engine.config, settings, engine.mask_token_id, seed),
        settings,
        _encoded(engine, given.texts, given.numbers, settings.method, seed),
        _encoded(engine, given.dev_texts, given.dev_numbers, "finetune", seed) if given.dev_texts else None,
        engine.loaded.tokenizer.pad_token_id,
        derive(seed, "fit"),
        progress,
        folder,
        {
            "base": base,
            "config": engine.config.to_dict(),
            "classes": list(given.classes),
            "synonyms": None if synonyms is None else synonyms.fingerprint,
        },
        callbacks,
    )
    record = {
        "base": base,
        "train_config": settings.to_dict(),
        "seed": seed,
        "num_texts": len(given.texts),
        "num_added_texts": given.num_added,
        "num_dev_texts": len(given.dev_texts),
        "history": trained.history,
    }
    return record, trained.weights


def _encoded(engine: Engine, texts: Sequence[TextInput], numbers: Sequence[int], method: Method, seed: int) -> Labelled:
    """Tokenize; where copies differ in their words, every epoch trains on words drawn anew."""
    config = engine.config
    hides = config.word_mask_rate > 0 or config.word_deletion_rate > 0
    if method != "safer" and not hides:
        return Labelled(engine.encode(texts), numbers)
    words = engine.words if hides else None

    def redraw(place: int, epoch: int) -> Encoded:
        (row,) = engine.redrawn(texts[place], [derive(seed, "words" if hides else "safer", epoch, place)], words)
        return row

    if hides:
        return Labelled([redraw(place, _BEFORE) for place in range(len(texts))], numbers, redraw)
    redraw(0, _BEFORE)  # says so at once if there is no table
    return Labelled(engine.encode(texts), numbers, redraw)


def _warn_of_rare_classes(classes: Sequence[Label], numbers: Sequence[int]) -> None:
    counts = Counter(numbers)
    for number, label in enumerate(classes):
        if counts[number] <= 1:
            found = (
                "one training text: it is never held out to choose the best epoch, and" if counts[number] else "none:"
            )
            warnings.warn(f"class {label!r} has {found} it will hardly be learnt; add texts", RsmiWarning, stacklevel=4)


def _labelled(texts: Any, labels: Any, classes: Sequence[Label], what: str) -> tuple[list[TextInput], list[int]]:
    checked, own_labels = as_labelled(texts, labels)
    try:
        return checked, class_numbers(own_labels, classes)
    except LabelError as error:
        raise LabelError(f"{what}: {error}; a label must occur in the training texts, or pass classes=[...]") from None
