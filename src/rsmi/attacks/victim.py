"""A target under attack: answers in batches, every query of an input counted once and kept within the budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from rsmi.attacks.steps import Steps, ask
from rsmi.attacks.words import Words
from rsmi.defense import Target
from rsmi.errors import InputError, LabelError
from rsmi.records import Label, TextInput

Array: TypeAlias = np.ndarray[Any, Any]
_TOLERANCE = 1e-3  # of the sum of a row: half-precision models are off by that much


def ask_target(target: Target, texts: Sequence[TextInput], draw: int = 0) -> Array:
    """Return what a target says about texts, (texts, classes), once it is sure that these are probabilities."""
    return _checked(target, target.query(list(texts), draw), texts)


def ask_each(target: Target, texts: Sequence[TextInput], draws: Sequence[int]) -> Array:
    """Return the same, each text under a draw of its own: in one call of targets that can (`query_each`)."""
    if hasattr(target, "query_each") and len(set(draws)) > 1:
        return _checked(target, target.query_each(list(texts), list(draws)), texts)
    rows = np.empty((len(texts), len(target.classes_)))
    for draw in dict.fromkeys(draws):
        places = [place for place, other in enumerate(draws) if other == draw]
        rows[places] = ask_target(target, [texts[place] for place in places], draw)
    return rows


def _checked(target: Target, answers: Any, texts: Sequence[TextInput]) -> Array:
    rows = np.asarray(answers, dtype=np.float64)
    asked, wanted = f"{type(target).__name__}.query", (len(texts), len(target.classes_))
    if rows.shape != wanted:
        raise InputError(f"expected scores of shape {wanted} from {asked}, got {rows.shape}")
    if not np.isfinite(rows).all() or (rows < 0).any() or (np.abs(rows.sum(1) - 1) > _TOLERANCE).any():
        raise InputError(f"expected rows of probabilities from {asked}, none below 0, that add up to 1; got others")
    return rows


class Victim:
    """A target as all inputs of a run share it.

    A target with an attribute `redraws` that is true is never answered for from memory: a text that is asked about
    again is asked under another draw.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.redraws = bool(getattr(target, "redraws", False))
        self.classes: tuple[Label, ...] = tuple(target.classes_.tolist())
        self._numbers = {label: number for number, label in enumerate(self.classes)}

    def class_number(self, label: Label, where: str) -> int:
        """Return the column of a class."""
        if label not in self._numbers:
            raise LabelError(f"{where}: expected one of the classes {list(self.classes)}, got {label!r}")
        return self._numbers[label]

    def scores(self, texts: Sequence[TextInput]) -> Array:
        """Return probabilities, (texts, classes) in float32, each distinct text asked about once."""
        return self.drawn_scores([(text, 0) for text in texts])

    def drawn_scores(self, items: Sequence[tuple[TextInput, int]]) -> Array:
        """Return probabilities of texts, each under a draw of its own choice."""
        place = {item: number for number, item in enumerate(dict.fromkeys(items))}
        rows = ask_each(self.target, [text for text, _ in place], [draw for _, draw in place])
        return rows.astype(np.float32)[[place[item] for item in items]]


@dataclass(frozen=True, slots=True)
class Scores:
    """What the victim said about texts; row by row."""

    loss: Array
    """(texts,): 1 - probability of the true class, which the attacker wants high (float32, as TextAttack compares)."""
    wrong: Array
    """(texts,): whether the answer is another class."""
    winners: Array
    """(texts,): the class answered, as a number."""
    confidence: Array
    """(texts,): the probability of that class."""

    def __len__(self) -> int:
        return len(self.loss)

    @classmethod
    def none(cls) -> Scores:
        """Answers to no questions."""
        return cls(np.empty(0, np.float32), np.empty(0, bool), np.empty(0, int), np.empty(0, np.float32))

    @classmethod
    def of(cls, rows: Array, gold: int) -> Scores:
        """Judge rows of probabilities by the true class."""
        winners = rows.argmax(1)
        return cls(np.float32(1) - rows[:, gold], winners != gold, winners, rows.max(1))


@dataclass
class Game:
    """One input under attack."""

    victim: Victim
    original: Words
    gold: int
    """Number of the true class."""
    key: int
    """For the attack's own random draws: a function of seed and input, not of what runs beside it."""
    columns: tuple[str, ...] = ()
    """Names of the two columns of a pair, where they are known."""
    max_queries: int | None = None
    queries: int = 0
    start: Scores = field(init=False)
    """What the victim said about the original."""
    _answers: dict[TextInput, Array] = field(default_factory=dict)
    _asked: dict[TextInput, int] = field(default_factory=dict)
    """How often each text was asked about, where it is asked about anew every time."""

    @property
    def over(self) -> bool:
        """Whether the budget is used up."""
        return self.max_queries is not None and self.queries >= self.max_queries

    def ask(self, texts: Sequence[TextInput]) -> Steps[Scores]:
        """Ask about texts, as many as the budget allows; a text asked about again is counted but not computed again."""
        if self.max_queries is not None:
            texts = texts[: max(0, self.max_queries - self.queries)]
        self.queries += len(texts)
        if not texts:
            return Scores.none()
        if self.victim.redraws:
            return Scores.of(np.stack((yield from self._redrawn(texts))), self.gold)
        new = self._unanswered(texts)
        rows = yield from ask(self.victim.scores, new)
        self._answers.update(zip(new, rows, strict=True))
        return Scores.of(np.stack([self._answers[text] for text in texts]), self.gold)

    def _redrawn(self, texts: Sequence[TextInput]) -> Steps[list[Array]]:
        """Ask about texts under draws not yet used for them; the last answer is the one that is kept."""
        items = []
        for text in texts:
            items.append((text, self._asked.get(text, 0)))
            self._asked[text] = items[-1][1] + 1
        rows = list((yield from ask(self.victim.drawn_scores, items)))
        self._answers.update(zip(texts, rows, strict=True))
        return rows

    def answers_now(self, texts: Sequence[TextInput]) -> Array:
        """Return probabilities at once, uncounted: for a search not ours, which cannot wait and counts by itself."""
        new = self._unanswered(texts)
        if new:
            self._answers.update(zip(new, self.victim.scores(new), strict=True))
        return np.stack([self._answers[text] for text in texts])

    def _unanswered(self, texts: Sequence[TextInput]) -> list[TextInput]:
        return [text for text in dict.fromkeys(texts) if text not in self._answers]

    def judge(self, text: TextInput) -> Steps[tuple[TextInput, Scores]]:
        """Return a text with the answer to it.

        One that was never asked about costs a query; where none is left, the original is judged instead.
        """
        if text not in self._answers:
            text = self.original.text if self.over else text
            yield from self.ask([text] if text not in self._answers else [])
        return text, Scores.of(self._answers[text][None], self.gold)
