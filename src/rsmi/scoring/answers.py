"""Texts -> the columns that scoring adds to them, in this process or in another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rsmi.classifier import RsmiClassifier
from rsmi.config import RsmiConfig
from rsmi.errors import ConfigError, DataError, WorkerError
from rsmi.method.monitoring import under_attack
from rsmi.method.substitution import SynonymTable
from rsmi.records import Label, Prediction, TextInput

Cells: TypeAlias = tuple[Any, ...]
"""The added values of one row, in the order of `added_columns`; None where there is none."""
ERROR = "error"
"""The column that says why a row has no prediction."""
_DIGITS = 6  # of under_attack, whose last bits follow the batch and the number of threads


@dataclass(frozen=True, slots=True)
class Column:
    """A column that scoring adds."""

    name: str
    kind: str
    """Its Arrow type: string, int64, double or bool."""


def added_columns(classes: Sequence[Label], prefix: str, with_error: bool) -> tuple[Column, ...]:
    """Return the columns that scoring adds, in order."""
    kind = "int64" if isinstance(classes[0], int) else "string"
    columns = [
        Column("label", kind),
        *(Column(f"probability_{label}", "double") for label in classes),
        Column("escalated", "bool"),
        Column("abstained", "bool"),
        Column("truncated", "bool"),
        Column("copies", "int64"),
        Column("under_attack", "double"),
        *([Column(ERROR, "string")] if with_error else ()),
    ]
    return tuple(Column(prefix + column.name, column.kind) for column in columns)


def check_names(own: Sequence[str], added: Sequence[Column], origin: str) -> None:
    """Refuse to add a column under a name that is taken."""
    names = [column.name for column in added]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1 or name in own]
    if twice:
        raise DataError(
            f"{origin}: expected free names for the columns of the predictions, got {', '.join(map(repr, twice))} "
            "already; rename those, or pass prefix='predicted_' (--prefix predicted_)"
        )


def answer(classifier: RsmiClassifier, texts: Sequence[TextInput]) -> list[Cells]:
    """Classify texts."""
    return [cells_of(prediction) for prediction in classifier.explain_iter(texts)]


def cells_of(prediction: Prediction) -> Cells:
    """Return what scoring says about a text."""
    return (
        prediction.label,
        *prediction.probabilities.values(),
        prediction.escalated,
        prediction.abstained,
        prediction.truncated,
        prediction.copies,
        round(under_attack(prediction), _DIGITS),
    )


def rows_of(answers: Sequence[Cells], errors: Sequence[str | None], columns: Sequence[Column]) -> list[Cells]:
    """Return the added values of every row: those classified in order, and nothing but the error for the others.

    Where `columns` has no place for errors, no row may have one.
    """
    with_error = columns[-1].kind == "string" and columns[-1].name.endswith(ERROR)
    blank = (None,) * (len(columns) - with_error)
    pending = iter(answers)
    return [(*(next(pending) if error is None else blank), *((error,) if with_error else ())) for error in errors]


Part: TypeAlias = tuple[int, list[TextInput]]
"""Number of a chunk and the texts of it that can be classified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """What a worker needs to classify as this process does. Holds names, numbers and settings only."""

    model: str
    """A model folder or hub id; must be found under the same name on every machine."""
    fingerprint: str
    """Of the weights, which must be the same there."""
    config: RsmiConfig
    classes: tuple[Label, ...]
    synonyms: SynonymTable | None
    seed: int | None
    device: str | None
    dtype: str
    backend: str
    token_budget: int | None

    @classmethod
    def of(cls, classifier: RsmiClassifier) -> Answering:
        """Describe a classifier that was loaded by its name."""
        if classifier.device is not None and not isinstance(classifier.device, str):
            raise ConfigError(f"device: expected a name such as 'cuda' for workers, got {classifier.device!r}")
        engine = classifier.engine()
        return cls(
            model=str(classifier.base),
            fingerprint=classifier.fingerprint,
            config=engine.config,
            classes=tuple(classifier.classes_.tolist()),
            synonyms=engine.synonyms,
            seed=engine.seed,
            device=classifier.device,
            dtype=classifier.dtype,
            backend=classifier.backend,
            token_budget=classifier.token_budget,
        )

    def open(self) -> Callable[[Part], list[Cells]]:
        """Load the model and make sure that it is the same one."""
        classifier = RsmiClassifier.from_pretrained(
            self.model,
            self.config,
            classes=self.classes,
            synonyms=self.synonyms,
            seed=self.seed,
            device=self.device,
            dtype=self.dtype,
            backend=self.backend,
            token_budget=self.token_budget,
            progress=False,
        )
        found = classifier.fingerprint if classifier.__sklearn_is_fitted__() else "an untrained model"
        if found != self.fingerprint:
            raise WorkerError(
                f"{self.model}: expected the weights {self.fingerprint} in every worker, got {found}; save the "
                "classifier, load it from that folder, and let every machine see the same one"
            )
        return lambda part: answer(classifier, part[1])

    def name(self, task: Part) -> str:
        """Name a chunk."""
        return f"chunk {task[0]} of the file"
