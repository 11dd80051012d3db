"""`ForeignTarget`: a classifier of which only the answers are known, and these are checked before anyone sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np

from rsmi.errors import ConfigError, TargetError
from rsmi.method.inputs import as_classes
from rsmi.records import Label, TextInput

Array: TypeAlias = np.ndarray[Any, Any]
_ROUNDED = 0.02  # how far probabilities may add up to something else than 1: services round them
_BELOW = 1e-6  # how far a probability may leave [0, 1] by rounding
_STEADY = 0.01  # how much the answer to a text may change that is asked about twice: other batches, half precision


class ForeignTarget(ABC):
    """What attacks need of a model that is not ours; satisfies `rsmi.defense.Target`.

    Args:
        name: What messages and records call it.
        classes: The classes as the data calls them, in the order of the columns of `query`.
        randomised: Whether it may answer the same text differently; successes are then asked about again.
    """

    uses_gradients = False

    def __init__(self, name: str, classes: Sequence[Label], randomised: bool = False) -> None:
        self.name = name
        self.classes_: Array = np.array(as_classes(classes))
        self.randomised = randomised

    @final
    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Array:
        """Return probabilities, (texts, classes); another `draw` asks anew, since nobody can choose the noise.

        Raises:
            TargetError: If the answer is not one probability for each text and class.
        """
        if not texts:
            return np.empty((0, len(self.classes_)))
        return as_probabilities(self.answers(list(texts)), len(texts), self.classes_.tolist(), self.name)

    @abstractmethod
    def answers(self, texts: list[TextInput]) -> Any:
        """Return a row of numbers for each text, in the order of `classes_`."""

    @property
    @abstractmethod
    def about(self) -> dict[str, Any]:
        """What the records of a run say about the model: `name`, `kind`, `config`, and `fingerprint` if it has one."""

    def check_steady(self, texts: Sequence[TextInput]) -> None:
        """Ask about a few texts twice, before a run: a wrong address or class shows here, and so does randomness.

        Raises:
            TargetError: If there is no answer that can be used.
            ConfigError: If the two answers differ and the target was not declared to be random.
        """
        first = self.query(texts)
        if self.randomised:
            return
        change = np.abs(first - self.query(texts)).max(initial=0.0)
        if change > _STEADY:
            raise ConfigError(
                f"{self.name}: expected the same answer to the same text, got probabilities that differ by "
                f"{change:.3f}; pass randomised (--randomised), so that what is found is asked about again"
            )


def as_probabilities(rows: Any, num: int, classes: Sequence[Label], name: str) -> Array:
    """Return rows of probabilities, (texts, classes), that add up to 1, or say what they are instead.

    Sums that rounding moved away from 1 are moved back.

    Args:
        rows: What was answered.
        num: Texts that were asked about.
        classes: What the columns stand for.
        name: Of the model, for the message.
    """
    wanted = f"{name}: expected a probability for each of the classes {list(classes)}"
    try:
        raw = np.asarray(rows)
    except (RuntimeError, TypeError, ValueError) as error:  # rows of different lengths, a tensor with a gradient
        raise TargetError(f"{wanted} and each of {num} texts, got {shown(rows)} ({error})") from error
    if raw.dtype.kind not in "fiu" or raw.shape != (num, len(classes)):
        raise TargetError(
            f"{wanted} and each of {num} texts: numbers of shape {(num, len(classes))}; got {raw.dtype} of shape "
            f"{raw.shape}: {shown(rows)}"
        )
    found = raw.astype(np.float64)
    outside = ~np.isfinite(found).all(1) | (found < -_BELOW).any(1) | (found > 1 + _BELOW).any(1)
    wrong = outside | (np.abs(found.sum(1) - 1) > _ROUNDED)
    if wrong.any():
        place = int(wrong.argmax())
        raise TargetError(
            f"{wanted}, from 0 to 1, that add up to 1; got {found[place].tolist()} for text {place}; scores that "
            "are no probabilities, such as logits or those of a model with several labels a text, cannot be attacked"
        )
    kept = found.clip(0.0, 1.0)
    scaled: Array = kept / kept.sum(1, keepdims=True)
    return scaled


def shown(value: Any, length: int = 200) -> str:
    """Return a value as a message shows it: on one line, and not too long."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= length else text[: length - 1] + "…"
