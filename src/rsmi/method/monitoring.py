"""Predictions -> how much they look like an attack: votes that disagree, second steps, saliency on a few tokens."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from rsmi.errors import InputError
from rsmi.records import Prediction


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What a prediction tells about an attack, each from 0 to 1."""

    disagreement: float
    """Share of all votes against the class with the most, over the largest that can be: 0 where all agree, 1 where
    every class has as many; 0 without votes or with a single one."""
    escalation: float
    """1 where the first vote was not clear: step two was needed, or the sequential rule abstained. Else 0."""
    concentration: float
    """How few tokens hold the saliency: 1 - entropy / log(tokens); 0 where all have as much, 1 where one has it all.

    0 too where it says nothing: fewer than two tokens, or no saliency (masks that do not follow the gradient).
    """

    def to_dict(self) -> dict[str, float]:
        """Return plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """A logistic combination of the signals. More disagreement or escalation never lowers it."""

    intercept: float
    disagreement: float
    escalation: float
    concentration: float

    def __post_init__(self) -> None:
        if not all(map(math.isfinite, asdict(self).values())):
            raise InputError(f"weights: expected finite numbers, got {asdict(self)}")
        if self.disagreement < 0 or self.escalation < 0:
            raise InputError(f"weights: expected disagreement and escalation of at least 0, got {asdict(self)}")

    def score(self, own: Signals) -> float:
        """Return a number from 0 to 1."""
        total = self.intercept + self.disagreement * own.disagreement + self.escalation * own.escalation
        total += self.concentration * own.concentration
        odds = math.exp(-abs(total))  # at most 1: never too large for a float
        return 1 / (1 + odds) if total >= 0 else odds / (1 + odds)

    def to_dict(self) -> dict[str, float]:
        """Return plain values, ready for JSON."""
        return asdict(self)


WEIGHTS: Final = Weights(intercept=-0.561, disagreement=1.71, escalation=1.149, concentration=-0.079)
"""The weights in use, fitted by `rsmi analyse monitoring runs/mr mr-dev-pwws.jsonl --fit weights.json --draws 5`.

The model has the settings of the README's example (MiniLM, `mr`, one mask; trained by an earlier state of this code,
dev accuracy 0.721). The texts are 36 sentences of the dev split and the 27 texts by which PWWS fooled it (8-bit
backend), clean and attacked ones counted alike: 0.5 is no evidence either way. `benchmarks/results/monitoring` holds
records, result and what else was tried: single draws gave other weights each time, so five were taken together, and the
penalty of the fit was chosen among four values on these texts. Concentration told next to nothing, hence its weight.
"""
FITTED_ON: Final[tuple[Mapping[str, str], ...]] = (
    {"model": "0742990963ca1bab4d29068fbc51aac3", "data": "d2c610dbb258afd2486f7ded197bb5e5"},
)
"""Fingerprints of the model and the sample that they were fitted on, and must not be judged on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What the predictions of one request, or of the last minutes, say together: means over them."""

    texts: int
    escalated: float
    """Share of the texts whose first vote was not clear."""
    disagreement: float
    concentration: float
    under_attack: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


def signals(prediction: Prediction) -> Signals:
    """Return what a prediction tells about an attack."""
    return Signals(
        disagreement=_disagreement(prediction),
        escalation=float(prediction.escalated or prediction.abstained),
        concentration=_concentration([token.saliency for token in prediction.tokens if token.sequence >= 0]),
    )


def under_attack(prediction: Prediction, weights: Weights = WEIGHTS) -> float:
    """Return from 0 to 1 how much a prediction looks like that of an attacked text.

    It rises with the disagreement of the votes and with escalation. A hint for a person who watches many requests, not
    a detector: clean texts that are hard look alike, and an attacker who knows it can avoid it. How well it tells
    attacked texts from clean ones is measured by `rsmi analyse monitoring`.

    Args:
        prediction: From `RsmiClassifier.explain`.
        weights: How the three signals count.
    """
    return weights.score(signals(prediction))


def watch(predictions: Iterable[Prediction], weights: Weights = WEIGHTS) -> Window:
    """Return what several predictions say together, such as the share that escalated.

    Raises:
        InputError: If there are none.
    """
    seen = [signals(prediction) for prediction in predictions]
    if not seen:
        raise InputError("expected at least one prediction to watch, got none")
    return Window(
        texts=len(seen),
        escalated=math.fsum(own.escalation for own in seen) / len(seen),
        disagreement=math.fsum(own.disagreement for own in seen) / len(seen),
        concentration=math.fsum(own.concentration for own in seen) / len(seen),
        under_attack=math.fsum(weights.score(own) for own in seen) / len(seen),
    )


def _disagreement(prediction: Prediction) -> float:
    second = prediction.second_votes or {}
    counts = [count + second.get(label, 0) for label, count in prediction.first_votes.items()]
    total = sum(counts)
    if total == 0 or len(counts) < 2:
        return 0.0
    return (1 - max(counts) / total) / (1 - 1 / len(counts))


def _concentration(saliency: list[float]) -> float:
    total = math.fsum(saliency)
    if len(saliency) < 2 or total <= 0 or not math.isfinite(total):
        return 0.0
    shares = [value / total for value in saliency]
    entropy = -math.fsum(share * math.log(share) for share in shares if share > 0)
    return min(1.0, max(0.0, 1 - entropy / math.log(len(saliency))))
