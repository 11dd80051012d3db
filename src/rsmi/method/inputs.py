"""Whatever a user passes as texts and labels -> checked texts and class numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rsmi.errors import ConfigError, InputError, LabelError
from rsmi.method.tokens import check_text
from rsmi.records import Label, TextInput


def as_texts(texts: Any) -> list[TextInput]:
    """Return a list of texts, or of pairs, from a list, tuple, array, pandas series or iterator."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"expected a list of texts, got a single {type(texts).__name__}; pass [text]")
    if hasattr(texts, "columns"):
        raise InputError("expected a list of texts, got a table; pass one column, or a list of pairs")
    if not isinstance(texts, Iterable) or isinstance(texts, Mapping):
        raise InputError(f"expected a list of texts, got {type(texts).__name__}")
    return list(check_each(_as_list(texts)))


def check_each(texts: Iterable[object]) -> Iterator[TextInput]:
    """Check texts one by one; texts and pairs do not mix."""
    first: TextInput | None = None
    for i, text in enumerate(texts):
        checked = check_text(text, f"text {i}")
        first = checked if first is None else first
        if isinstance(checked, str) != isinstance(first, str):
            raise InputError(f"expected only texts or only pairs, got both: text 0 and text {i} differ")
        yield checked


def as_labels(labels: Any, num_texts: int) -> list[Label]:
    """Return one label a text, each a str or an int, all of one kind."""
    if labels is None or isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise LabelError(f"expected a list of labels, got {type(labels).__name__}")
    checked = [_check_label(label, i) for i, label in enumerate(_as_list(labels))]
    if len(checked) != num_texts:
        raise LabelError(f"expected {num_texts} labels, one a text, got {len(checked)}")
    if len({type(label) for label in checked}) > 1:
        raise LabelError("expected labels that are all str or all int, got both")
    return checked


def as_labelled(texts: Any, labels: Any) -> tuple[list[TextInput], list[Label]]:
    """Return texts and their labels, checked; at least one of each."""
    checked = as_texts(texts)
    if not checked:
        raise InputError("expected labelled texts, got none")
    return checked, as_labels(labels, len(checked))


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


def as_count(value: Any, name: str, least: int) -> int:
    """Return a whole number of at least `least` as a plain int, which JSON and generators take."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name}: expected an int of at least {least}, got {value!r}")
    return int(value)


def _check_label(label: Any, i: int) -> Label:
    value = label.item() if isinstance(label, np.generic) else label
    if type(value) is str and value.strip():
        return value
    if type(value) is int:
        return value
    shown = "NaN" if isinstance(value, float) and value != value else repr(value)
    raise LabelError(f"label {i}: expected a non-empty str or an int, got {shown}")


def _as_list(values: Any) -> list[Any]:
    raw = values.tolist() if hasattr(values, "tolist") else list(values)
    return raw if isinstance(raw, list) else [raw]  # an array without dimensions
