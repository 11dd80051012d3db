"""Whatever a user passes as texts and labels -> checked texts and class numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rsmi.errors import InputError, LabelError
from rsmi.method.tokens import check_text
from rsmi.records import Label, TextInput


def as_texts(texts: Any) -> list[TextInput]:
    """Return a list of texts, or of pairs, from a list, tuple, array, pandas series or iterator."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"expected a list of texts, got a single {type(texts).__name__}; pass [text]")
    if hasattr(texts, "columns"):
        raise InputError("expected a list of texts, got a table; pass one column, or a list of pairs")
    if not isinstance(texts, Iterable) or isinstance(texts, dict):
        raise InputError(f"expected a list of texts, got {type(texts).__name__}")
    raw = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    return check_all(raw)


def check_all(texts: Sequence[object], first: int = 0) -> list[TextInput]:
    """Check each text, counting from `first` in messages; texts and pairs do not mix."""
    checked = [check_text(text, f"text {first + i}") for i, text in enumerate(texts)]
    for i, text in enumerate(checked):
        if isinstance(text, str) != isinstance(checked[0], str):
            raise InputError(f"expected only texts or only pairs, got both: text {first} and text {first + i} differ")
    return checked


def from_pipeline(item: Any) -> Any:
    """Return the text, or the pair, in a dict as transformers' pipelines take it; anything else as it is."""
    if not isinstance(item, dict):
        return item
    if "text" not in item:
        raise InputError(f"expected a dict with text and, for a pair, text_pair; got {sorted(item)}")
    return (item["text"], item["text_pair"]) if item.get("text_pair") is not None else item["text"]


def as_labels(labels: Any, num_texts: int) -> list[Label]:
    """Return one label a text, each a str or an int, all of one kind."""
    if labels is None or isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise LabelError(f"expected a list of labels, got {type(labels).__name__}")
    raw = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    checked = [_check_label(label, i) for i, label in enumerate(raw)]
    if len(checked) != num_texts:
        raise LabelError(f"expected {num_texts} labels, one a text, got {len(checked)}")
    if len({type(label) for label in checked}) > 1:
        raise LabelError("expected labels that are all str or all int, got both")
    return checked


def as_classes(classes: Iterable[Any]) -> tuple[Label, ...]:
    """Return the classes, checked: two or more, distinct, all str or all int."""
    checked = [_check_label(label, i) for i, label in enumerate(classes)]
    if len(checked) < 2 or len(set(checked)) < len(checked) or len({type(label) for label in checked}) > 1:
        raise LabelError(f"expected two or more distinct classes, all str or all int, got {checked!r}")
    return tuple(checked)


def class_numbers(labels: Sequence[Label], classes: Sequence[Label]) -> list[int]:
    """Return the place of each label among `classes`."""
    numbers = {label: i for i, label in enumerate(classes)}
    for i, label in enumerate(labels):
        if label not in numbers:
            raise LabelError(f"label {i}: expected one of {list(classes)!r}, got {label!r}")
    return [numbers[label] for label in labels]


def _check_label(label: Any, i: int) -> Label:
    value = label.item() if isinstance(label, np.generic) else label
    if type(value) is str and value.strip():
        return value
    if type(value) is int:
        return value
    shown = "NaN" if value != value else repr(value)
    raise LabelError(f"label {i}: expected a non-empty str or an int, got {shown}")
