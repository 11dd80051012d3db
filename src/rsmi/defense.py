"""The `Target` and `Defense` protocols: all that attacks, evaluation and reports may ask of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rsmi.records import Label, TextInput


@runtime_checkable
class Target(Protocol):
    """What can be attacked: anything that answers texts with probabilities."""

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The classes, in the order of the columns of `query`."""
        ...

    @property
    def randomised(self) -> bool:
        """Whether answers depend on random draws; attacks must then average over them."""
        ...

    @property
    def uses_gradients(self) -> bool:
        """Whether a prediction takes a gradient; gradient-free attacks may then look weaker than they are."""
        ...

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> np.ndarray[Any, Any]:
        """Return probabilities of shape (texts, classes), as an attacker asks for them.

        Unlike `predict_proba` it answers blank texts too, since attacks delete words. Another `draw` gives answers
        under other, independent noise; the same draw of a target with a seed gives the same answer.

        A target that answers several draws at once faster than one after the other may have a method
        `query_each(texts, draws)` besides, with one draw a text and the same answers.
        """
        ...


@runtime_checkable
class Defense(Target, Protocol):
    """A text classifier that can be trained, saved and attacked."""

    def fit(self, texts: Sequence[TextInput], labels: Sequence[Label]) -> Defense:
        """Train on labelled texts and return itself."""
        ...

    def predict(self, texts: Sequence[TextInput]) -> np.ndarray[Any, Any]:
        """Return one class a text."""
        ...

    def predict_proba(self, texts: Sequence[TextInput]) -> np.ndarray[Any, Any]:
        """Return scores of shape (texts, classes); rows sum to 1."""
        ...

    def save_pretrained(self, folder: str | Path) -> None:
        """Write everything needed to load it again."""
        ...
