"""What a model that is not ours answered -> a row of numbers for each text, in the order of the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsmi.errors import ConfigError
from rsmi.records import Label

EACH = "*"
"""Stands for the texts in the path of an answer."""


class UnexpectedAnswer(ValueError):
    """An answer cannot be read; says what was expected and how to say where it is."""


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads answers whose shape is known, and finds the usual ones by themselves.

    Known without a path: what `POST /v1/predict` of `rsmi serve` answers, and the lists of `{"label", "score"}` that
    pipelines of transformers and the endpoints around them answer.
    """

    classes: tuple[Label, ...]
    """As the data calls them."""
    rename: Mapping[str, str] = field(default_factory=dict)
    """What the answers call a class -> what the data calls it, where the two differ."""
    path: str | None = None
    """Keys and places on the way to the probabilities, with dots between them, `*` for the texts; None for the usual
    shapes. Without `*` it leads to the answer about one text."""

    def __post_init__(self) -> None:
        if self.path is not None and (not all(self.path.split(".")) or self.path.split(".").count(EACH) > 1):
            raise ConfigError(
                f"answer: expected keys with dots between them and at most one {EACH}, such as "
                f"predictions.{EACH}.scores; got {self.path!r}"
            )
        ours = {str(label) for label in self.classes}
        unknown = [name for name in self.rename.values() if name not in ours]
        if unknown:
            raise ConfigError(f"rename: expected classes of {sorted(ours)} on the right, got {unknown[0]!r}")

    def rows(self, answer: Any, num: int) -> list[list[float]]:
        """Return the rows of an answer about `num` texts.

        Raises:
            UnexpectedAnswer: If they are not there.
        """
        return [self.row(own) for own in (self._usual(answer, num) if self.path is None else self._at(answer, num))]

    def row(self, value: Any) -> list[float]:
        """Return the numbers of one text: from `{class: number}`, `[{"label", "score"}]` or a plain list of numbers."""
        if isinstance(value, Mapping):
            value = value.get("probabilities", value)
        if isinstance(value, Mapping):
            return self._ordered(list(value.items()))
        if not isinstance(value, list):
            raise UnexpectedAnswer(f"expected {self._wanted}")
        if value and all(isinstance(item, Mapping) and {"label", "score"} <= set(item) for item in value):
            return self._ordered([(item["label"], item["score"]) for item in value])
        numbers = [_number(item, "each class") for item in value]
        if len(numbers) != len(self.classes):
            raise UnexpectedAnswer(f"expected {len(self.classes)} numbers, in the order of {list(self.classes)}")
        return numbers

    @property
    def _wanted(self) -> str:
        return f"a probability for each of the classes {[str(label) for label in self.classes]}"

    def _usual(self, answer: Any, num: int) -> list[Any]:
        if isinstance(answer, Mapping) and "results" in answer:
            answer = answer["results"]
        elif isinstance(answer, Mapping):
            answer = [answer]
        if not isinstance(answer, list):
            raise UnexpectedAnswer("expected an object or a list; say where the probabilities are (--answer)")
        flat = bool(answer) and not any(isinstance(item, list) for item in answer)
        labelled = flat and all(isinstance(item, Mapping) and "label" in item and "score" in item for item in answer)
        numbers = flat and all(isinstance(item, (int, float)) for item in answer)
        if num == 1 and (labelled or numbers):  # the classes of the only text
            return [answer]
        if labelled:
            raise UnexpectedAnswer(
                f"expected {self._wanted} and each text, got one class a text; ask for the scores of all classes, for "
                'example with "parameters": {"top_k": null} in the body (--body)'
            )
        if len(answer) != num:
            raise UnexpectedAnswer(
                f"expected an answer for each of {num} texts, got {len(answer)}; say where the probabilities are "
                "(--answer), or ask about one text at a time (--batch-size 1)"
            )
        return answer

    def _at(self, answer: Any, num: int) -> list[Any]:
        before, star, after = str(self.path).partition(EACH)
        found = _followed(answer, before)
        if not star:
            if num != 1:
                raise UnexpectedAnswer(
                    f"expected {EACH} for the texts in the path of the answer, got {self.path!r} for {num} texts; ask "
                    "about one text at a time (--batch-size 1)"
                )
            return [found]
        if not isinstance(found, list) or len(found) != num:
            raise UnexpectedAnswer(f"expected a list of {num} at {EACH} of {self.path!r}, one a text")
        return [_followed(own, after) for own in found]

    def _ordered(self, named: Sequence[tuple[Any, Any]]) -> list[float]:
        places = {str(label): place for place, label in enumerate(self.classes)}
        row: list[float | None] = [None] * len(places)
        for theirs, value in named:
            ours = self.rename.get(str(theirs), str(theirs))
            if ours not in places:
                raise UnexpectedAnswer(
                    f"expected the classes {list(places)}, got {theirs!r}; pass all classes (--classes), or what the "
                    f"data calls this one (--rename {theirs}=...)"
                )
            if row[places[ours]] is not None:
                raise UnexpectedAnswer(f"expected one number for the class {ours!r}, got two")
            row[places[ours]] = _number(value, repr(theirs))
        missing = [label for label, place in places.items() if row[place] is None]
        if missing:
            raise UnexpectedAnswer(
                f"expected {self._wanted}, got none for {missing[0]!r}; ask for the scores of all classes, for example "
                'with "parameters": {"top_k": null} in the body (--body)'
            )
        return [value for value in row if value is not None]


def _followed(value: Any, path: str) -> Any:
    """Return what keys and places lead to."""
    for key in filter(None, path.split(".")):
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            there = f"an object with {sorted(map(str, value))}" if isinstance(value, Mapping) else type(value).__name__
            raise UnexpectedAnswer(f"expected {key!r} of the path {path!r}, found {there}")
    return value


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UnexpectedAnswer(f"expected a number for {what}, got {value!r}")
    return float(value)
