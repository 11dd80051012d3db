"""Frozen results: what the library says about a text, field by field."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

TextInput: TypeAlias = str | tuple[str, str]
"""A text, or a pair of texts (question and sentence, premise and hypothesis)."""

Label: TypeAlias = str | int
"""The name of a class, as the user wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token as the model reads it, and where it stands in the text."""

    text: str
    """The characters it covers; for a special token, its name."""
    start: int
    """First character, counted within its own text of a pair; -1 for a special token."""
    end: int
    """One past the last character; -1 for a special token."""
    sequence: int
    """0 for the text or the first of a pair, 1 for the second, -1 for a special token."""
    saliency: float
    """Norm of the loss gradient at its embedding; 0 for what is never masked, and when masking is not by gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The decision about one text, with the votes and masks behind it."""

    text: TextInput
    """What was classified."""
    label: Label | None
    """The winner, or None where the sequential rule abstains."""
    probabilities: dict[Label, float]
    """Share of each class: of the deciding votes, or of the averaged logits under `logit-average`."""
    first_votes: dict[Label, int]
    """Votes of step one (all votes under the sequential rule)."""
    second_votes: dict[Label, int] | None
    """Votes of step two, or None where step one was enough."""
    masked: tuple[int, ...]
    """Positions in `tokens` hidden in every copy of step one; fewer than `num_masks` where the text has fewer.

    Empty where each copy draws its own mask (random masking, sequential rule) or nothing is masked.
    """
    candidates: tuple[int, ...]
    """Positions the masks of step two are drawn from, most salient first; empty without masking."""
    masks_wanted: int
    """The `num_masks` asked for; `len(masked)` or `len(candidates)` below it says that the text was too short."""
    truncated: bool
    """The text was longer than `max_length` tokens and its end was not read."""
    tokens: tuple[Token, ...]
    """Every token read, special ones included."""

    @property
    def escalated(self) -> bool:
        """Whether step two was needed."""
        return self.second_votes is not None

    @property
    def abstained(self) -> bool:
        """Whether the votes were too close to call."""
        return self.label is None

    @property
    def copies(self) -> int:
        """Masked, noisy copies that were classified."""
        return sum(self.first_votes.values()) + sum((self.second_votes or {}).values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts, ready for JSON."""
        return {**asdict(self), "escalated": self.escalated, "abstained": self.abstained, "copies": self.copies}


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Share of right answers with its interval; an abstention is not a right answer."""

    correct: int
    total: int
    abstained: int
    low: float
    """Lower end of the 95 % Wilson interval."""
    high: float
    """Upper end of the 95 % Wilson interval."""

    @property
    def value(self) -> float:
        """Correct answers / all texts."""
        return self.correct / self.total

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "value": self.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a defense saw of one text: its votes, and the tokens it found salient."""

    votes: dict[str, int]
    """Votes of the deciding step, by the class's name."""
    tokens: tuple[tuple[str, float, bool], ...]
    """Every token that is not a special one: its characters, its saliency, and whether step one hid it."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Evidence:
        """Read what `asdict` wrote."""
        return cls(votes=dict(values["votes"]), tokens=tuple((t[0], t[1], t[2]) for t in values["tokens"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRecord:
    """What an attack did to one text."""

    attack: str
    """Name of the attack."""
    original: TextInput
    """The text as it was."""
    adversarial: TextInput
    """The text that came nearest to fooling the target; the original where nothing came nearer."""
    label: Label
    """The true class."""
    outcome: Literal["skipped", "failed", "succeeded"]
    """Skipped: the original is classified wrong already. The target's own answer decides, not the attack."""
    label_before: Label
    """What the target says about the original."""
    label_after: Label
    """What it says about the adversarial text."""
    gold_before: float
    """Probability of the true class for the original."""
    gold_after: float
    """Probability of the true class for the adversarial text."""
    queries: int
    """Texts the target was asked about, the original included, repetitions too."""
    budget_hit: bool
    """The attack failed because its queries ran out."""
    num_words: int
    """Words of the original."""
    words_changed: int
    """Words of the original that were replaced, deleted or inserted."""
    fresh_draws: int
    """How often a success against a randomised target was asked about again, each time under another draw."""
    fresh_flips: int
    """How often the answer was wrong then, too."""
    confidence_before: float = math.nan
    """Probability of the class that the target answered for the original; not a number where that was not kept."""
    tries: int = 1
    """How often the attack was run, each time under another draw of the target, until it succeeded or gave up."""
    evidence: dict[str, Evidence] | None = None
    """What the defense saw of the texts, under `original` and `adversarial`; None where the target does not tell."""

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> AttackRecord:
        """Read what `to_dict` wrote."""
        pairs = {
            name: tuple(values[name]) if isinstance(values[name], list) else values[name]
            for name in ("original", "adversarial")
        }
        evidence = values.get("evidence")
        shown = None if evidence is None else {name: Evidence.from_dict(own) for name, own in evidence.items()}
        confidence = values.get("confidence_before")
        kept = math.nan if confidence is None else confidence  # JSON has no NaN
        return cls(**{**values, **pairs, "evidence": shown, "confidence_before": kept})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        confidence = None if math.isnan(self.confidence_before) else self.confidence_before
        return {**asdict(self), "confidence_before": confidence}
