"""How long the updates of several ways to train take, side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from transformers import TrainerCallback

from rsmi.classifier import RsmiClassifier
from rsmi.config import TrainConfig
from rsmi.errors import InputError
from rsmi.evaluation.analyses import spread_of, to_first
from rsmi.records import Label, TextInput

_WARM_UP = 2  # updates


class Clock(TrainerCallback):  # type: ignore[misc]
    """Notes the seconds of each update."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._start = 0.0

    def on_step_begin(self, args: object, state: object, control: object, **kwargs: object) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    def on_step_end(self, args: object, state: object, control: object, **kwargs: object) -> None:
        """Stop the clock."""
        self.seconds.append(time.perf_counter() - self._start)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingTime:
    """What an update costs (the paper's Table 8)."""

    name: str
    seconds: tuple[float, ...]
    """Median of the updates, one a repeat."""
    ratios: tuple[float, ...]
    """To the first way to train, repeat by repeat."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "ratio": spread_of(self.ratios)}


def training_times(
    classifiers: Mapping[str, RsmiClassifier], texts: Sequence[TextInput], labels: Sequence[Label], repeats: int = 5
) -> list[TrainingTime]:
    """Train several classifiers by turns for an epoch on the same texts, so that what else runs slows all of them.

    Args:
        classifiers: Not trained yet; the first one is what the others are compared with. Their training is lost.
        texts: Enough for a few updates: the first two warm up.
        labels: Their classes.
        repeats: Rounds.
    """
    if not classifiers or not texts or repeats < 1:
        raise InputError("expected a classifier, texts and a repeat or more, got none of one of them")
    seconds: dict[str, list[float]] = {name: [] for name in classifiers}
    for number in range(repeats):
        names = list(classifiers) if number % 2 == 0 else list(classifiers)[::-1]
        for name in names:
            clock, classifier = Clock(), classifiers[name]
            short = replace(classifier.train_config or TrainConfig(), epochs=1, dev_fraction=0.0, patience=None)
            classifier.fit(texts, labels, short, callbacks=[clock])
            seconds[name].append(statistics.median(clock.seconds[_WARM_UP:] or clock.seconds))
    return [
        TrainingTime(name=name, seconds=tuple(seconds[name]), ratios=ratios)
        for name, ratios in to_first(seconds).items()
    ]
