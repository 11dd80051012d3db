"""Answers and labels -> standard accuracy (the paper's SAcc) with its Wilson interval."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import binomtest

from rsmi.defense import Defense
from rsmi.errors import InputError, LabelError
from rsmi.method.inputs import as_labels
from rsmi.records import Accuracy, Label, TextInput


def measure_accuracy(defense: Defense, texts: Sequence[TextInput], labels: Sequence[Label]) -> Accuracy:
    """Classify `texts` and count the right answers."""
    gold = as_labels(labels, len(texts))
    unknown = sorted({repr(label) for label in gold} - {repr(label) for label in defense.classes_.tolist()})
    if unknown:
        raise LabelError(
            f"expected labels among the model's classes {defense.classes_.tolist()}, got {', '.join(unknown[:5])}; "
            "name them as the model does, or choose another label_column (--label-column)"
        )
    return count_correct(defense.predict(texts), gold)


def count_correct(answers: Sequence[Any] | np.ndarray[Any, Any], labels: Sequence[Label]) -> Accuracy:
    """Compare answers, None for an abstention, with labels."""
    if len(answers) != len(labels) or len(labels) == 0:
        raise InputError(f"expected one answer a label and at least one, got {len(answers)} for {len(labels)} labels")
    correct = sum(answer is not None and answer == label for answer, label in zip(answers, labels, strict=True))
    abstained = sum(answer is None for answer in answers)
    low, high = wilson_interval(int(correct), len(labels))
    return Accuracy(correct=int(correct), total=len(labels), abstained=abstained, low=low, high=high)


@lru_cache(maxsize=4096)
def wilson_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Wilson interval of a proportion."""
    interval = binomtest(successes, trials).proportion_ci(confidence_level=level, method="wilson")
    return float(interval.low), float(interval.high)
