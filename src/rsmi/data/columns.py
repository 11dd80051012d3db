"""Column names -> which hold the text, its partner in a pair, and the label."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rsmi.errors import DataError
from rsmi.settings import nearest

_PAIRS = (("question", "sentence"), ("premise", "hypothesis"), ("sentence1", "sentence2"), ("text", "text_pair"))
_TEXTS = ("text", "sentence", "review", "content")
_LABELS = ("label", "label_name", "class", "target", "sentiment", "category")


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Names of the columns to read; as a choice, None means "find it"."""

    text: str | None = None
    """The text, or the first of a pair."""
    pair: str | None = None
    """The second text of a pair; None for single texts."""
    label: str | None = None
    """The class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextColumns:
    """Names of the columns that hold the text."""

    text: str
    """The text, or the first of a pair."""
    pair: str | None
    """The second text of a pair; None for single texts."""


def find_text_columns(present: Collection[str], choice: Columns, origin: str) -> TextColumns:
    """Return the chosen text columns, else those with a well-known name; a known pair wins over a single text.

    A text column given alone means single texts.

    Args:
        present: The columns there are.
        choice: What the user asked for.
        origin: The file or set, for the error message.
    """
    if choice.pair is not None and choice.text is None:
        raise DataError(
            f"{origin}: expected {_both('text_column')} beside pair_column={choice.pair!r}, got none; pass both"
        )
    if choice.text is not None:
        return TextColumns(
            text=_existing(choice.text, "text_column", present, origin),
            pair=None if choice.pair is None else _existing(choice.pair, "pair_column", present, origin),
        )
    for first, second in _PAIRS:
        if first in present and second in present:
            return TextColumns(text=first, pair=second)
    return TextColumns(text=_first(_TEXTS, "text_column", present, origin), pair=None)


def find_label_column(present: Collection[str], choice: Columns, origin: str) -> str:
    """Return the chosen label column, else the first one with a well-known name."""
    if choice.label is not None:
        return _existing(choice.label, "label_column", present, origin)
    return _first(_LABELS, "label_column", present, origin)


def _existing(name: str, option: str, present: Collection[str], origin: str) -> str:
    if name not in present:
        raise DataError(
            f"{origin}: expected a column {name!r}, got {_listed(present)}; pass another {_both(option)}"
            f"{nearest(name, present)}"
        )
    return name


def _first(known: Sequence[str], option: str, present: Collection[str], origin: str) -> str:
    for name in known:
        if name in present:
            return name
    raise DataError(
        f"{origin}: expected a header with one of the columns {_listed(known)}, got {_listed(present)}; "
        f"{_parted_otherwise(present) or f'pass {_both(option)} to name another'}"
    )


def _both(option: str) -> str:
    """Return the name of an option in Python and on the command line."""
    return f"{option} (--{option.replace('_', '-')})"


def _parted_otherwise(present: Collection[str]) -> str:
    """Return what to do about a header that is one column, since something else than expected parts the fields."""
    header = next(iter(present)) if len(present) == 1 else ""
    parting = next((mark for mark in (";", "\t", "|", ",") if mark in header), None)
    return (
        "" if parting is None else f"fields seem to be parted by {parting!r}: save it with commas (.csv) or tabs (.tsv)"
    )


def _listed(names: Collection[str]) -> str:
    shown = [repr(name if len(name) <= 40 else name[:39] + "…") for name in names]
    return ", ".join(shown[:20]) + (", …" if len(shown) > 20 else "") if shown else "none"
