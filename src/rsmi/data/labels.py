"""Raw values of a label column -> labels that are all strings or all integers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from rsmi.errors import DataError
from rsmi.records import Label

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")  # canonical decimal, at most 18 digits so that it fits 64 bits
_WHOLE = re.compile(r"(0|-?[1-9][0-9]{0,17})\.0+")
_OTHER_NUMBER = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+e[+-]?[0-9]+|nan|inf)(e[+-]?[0-9]+)?", re.IGNORECASE)
_WAY_OUT = "write classes as names or as whole numbers"


def labels_from_strings(values: Sequence[str], wheres: Sequence[str]) -> tuple[Label, ...]:
    """Turn the strings of a CSV or TSV column into labels.

    All canonical integers (`0`, `12`, `-1`) become integers, and so do whole floats (`1.0`, as pandas writes integers
    beside a gap) if every label is one. Other columns of numbers are refused: scores are not classes. Anything else
    stays a string exactly as written, `01` too.

    Args:
        values: The column.
        wheres: Where each value stands, for the error message.
    """
    for value, where in zip(values, wheres, strict=True):
        if not value.strip():
            raise DataError(f"{where}: expected a label, got a blank; fill it in or remove the row")
    if all(_INTEGER.fullmatch(value) for value in values):
        return tuple(int(value) for value in values)
    if all(_WHOLE.fullmatch(value) for value in values):
        return tuple(int(value.partition(".")[0]) for value in values)
    if all(_INTEGER.fullmatch(value) or _OTHER_NUMBER.fullmatch(value) for value in values):
        odd = [i for i, value in enumerate(values) if not _INTEGER.fullmatch(value)]
        worst = next((i for i in odd if not _WHOLE.fullmatch(values[i])), odd[0])  # a score or gap before a mere "1.0"
        raise DataError(f"{wheres[worst]}: expected a class, got the number {values[worst]!r}; {_WAY_OUT}")
    return tuple(values)


def labels_from_values(values: Sequence[object], wheres: Sequence[str]) -> tuple[Label, ...]:
    """Turn the values of a JSONL, Parquet or hub column into labels; only strings and integers are.

    Whole floats become integers if every label is one.

    Args:
        values: The column.
        wheres: Where each value stands, for the error message.
    """
    for value, where in zip(values, wheres, strict=True):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            raise DataError(f"{where}: expected a label, got none; fill it in or remove the row")
    if values and all(isinstance(value, float) and value.is_integer() for value in values):
        return tuple(int(value) for value in values if isinstance(value, float))
    labels: list[Label] = []
    for value, where in zip(values, wheres, strict=True):
        label = _checked(value, where)
        if labels and isinstance(label, str) != isinstance(labels[0], str):
            raise DataError(
                f"{where}: expected a label like {labels[0]!r} in the rows before, got {label!r}; "
                "write all labels as strings or all as integers"
            )
        labels.append(label)
    return tuple(labels)


def named_labels(labels: Sequence[Label], names: Sequence[str], origin: str) -> tuple[Label, ...]:
    """Replace the integers 0, 1, ... by the names of the classes."""
    unknown = [label for label in labels if not (isinstance(label, int) and 0 <= label < len(names))]
    if unknown:
        raise DataError(
            f"{origin}: expected labels from 0 to {len(names) - 1} ({', '.join(names)}), got {unknown[0]!r}; "
            "use the file as it was published"
        )
    return tuple(names[int(label)] for label in labels)


def _checked(value: object, where: str) -> Label:
    if isinstance(value, bool) or not isinstance(value, str | int):
        kind = type(value).__name__
        raise DataError(f"{where}: expected a string or an integer as label, got {value!r} ({kind}); {_WAY_OUT}")
    if isinstance(value, str) and not value.strip():
        raise DataError(f"{where}: expected a label, got a blank; fill it in or remove the row")
    return value
