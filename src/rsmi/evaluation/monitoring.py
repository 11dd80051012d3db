"""Attack records and the model -> how well its signals tell attacked texts from clean ones, and weights for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from scipy.optimize import minimize
from sklearn.metrics import roc_curve

from rsmi.classifier import RsmiClassifier
from rsmi.errors import DataError
from rsmi.evaluation.runs import Run
from rsmi.method.monitoring import Signals, Weights, signals
from rsmi.seeds import derive, generator

Array: TypeAlias = np.ndarray[Any, Any]
Positives: TypeAlias = Literal["succeeded", "attempted"]
"""What counts as attacked: texts that fooled the model, or the last text of every attack, failed ones too."""

SIGNALS = ("under_attack", "disagreement", "escalation", "concentration")
FALSE_ALARMS = 0.05
"""Share of clean texts that may be taken for attacked ones where a single number is wanted."""
_RESAMPLES = 2000
_PENALTY = 1e-2  # on the squares of the weights: disagreement and escalation say much the same, and share theirs


@dataclass(frozen=True, slots=True)
class Seen:
    """One text of a run, classified anew."""

    place: int
    """Which input of the sample it is, or was made of."""
    attacked: bool
    signals: Signals


@dataclass(frozen=True, slots=True, kw_only=True)
class Roc:
    """How well one score tells attacked texts from clean ones."""

    score: str
    clean: int
    """Texts; one that was classified several times counts as often."""
    attacked: int
    auc: float
    """Chance that an attacked text scores higher than a clean one, ties counted half."""
    low: float
    """Lower end of the 95 % bootstrap interval over inputs: an attacked text and what it was made of go together."""
    high: float
    caught: float
    """Largest share of attacked texts above a threshold that at most `FALSE_ALARMS` of the clean ones are above."""
    points: tuple[tuple[float, float], ...]
    """False alarms and texts caught, threshold by threshold."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self) | {"points": [list(point) for point in self.points]}


@dataclass(frozen=True, slots=True)
class FittedOn:
    """What weights were fitted on: they may be judged on anything else."""

    model: str
    """Fingerprint."""
    data: str
    """Fingerprint of the sample."""


def look_again(classifier: RsmiClassifier, run: Run, positives: Positives = "succeeded") -> list[Seen]:
    """Classify the originals that were answered right, and what attacks made of them.

    Args:
        classifier: The model that was attacked. Its seed should be another one than in the run: the attacker chose his
            texts by the draws of that one.
        run: Records of an attack.
        positives: Which texts count as attacked.

    Raises:
        DataError: If the run is of another model, or nothing in it was attacked.
    """
    if run.fingerprint != classifier.fingerprint:
        raise DataError(
            f"{run.source}: expected records of the model given ({classifier.fingerprint}), got those of "
            f"{run.fingerprint or 'an unknown one'}; choose the model that was attacked"
        )
    chosen = [
        (place, attacked, record.adversarial if attacked else record.original)
        for place, record in enumerate(run.records)
        if record.outcome != "skipped"
        for attacked in (False, True)
        if not attacked or _is_positive(record.outcome, record.adversarial != record.original, positives)
    ]
    if not any(attacked for _, attacked, _ in chosen):
        raise DataError(f"{run.source}: expected attacked texts, got none: no attack came to anything")
    predictions = classifier.explain_iter([text for _, _, text in chosen])
    return [
        Seen(place, attacked, signals(prediction))
        for (place, attacked, _), prediction in zip(chosen, predictions, strict=True)
    ]


def judge(seen: Sequence[Seen], weights: Weights, seed: int = 0) -> list[Roc]:
    """Return how well each signal, and all of them together, tell attacked texts from clean ones."""
    return [_roc(name, seen, _scores(name, seen, weights), seed) for name in SIGNALS]


def fit(seen: Sequence[Seen]) -> Weights:
    """Fit a logistic combination, clean and attacked texts counted alike: 0.5 means one is as likely as the other.

    More disagreement and escalation never lower it; what concentration does is left to the data.
    """
    features = np.array([[1.0, *_row(own.signals)] for own in seen])
    labels = np.array([own.attacked for own in seen])
    share = np.where(labels, 0.5 / max(1, labels.sum()), 0.5 / max(1, (~labels).sum()))

    def loss(weights: Array) -> tuple[float, Array]:
        logits = features @ weights
        errors = share * (1 / (1 + np.exp(-logits)) - labels)
        value = (share * np.logaddexp(0, np.where(labels, -logits, logits))).sum()
        penalty = _PENALTY * np.array([0.0, *weights[1:]])
        return float(value + 0.5 * (penalty * weights).sum()), features.T @ errors + penalty

    bounds = [(None, None), (0, None), (0, None), (None, None)]
    found = minimize(loss, np.zeros(4), jac=True, bounds=bounds, method="L-BFGS-B").x
    intercept, disagreement, escalation, concentration = (round(float(value), 3) for value in found)
    return Weights(intercept=intercept, disagreement=disagreement, escalation=escalation, concentration=concentration)


def fitted_on(runs: Iterable[Run]) -> list[dict[str, str]]:
    """Return what identifies the texts of runs, to be kept beside weights that were fitted on them."""
    found = [FittedOn(run.fingerprint, run.inputs[0]) for run in runs]
    return [asdict(own) for own in dict.fromkeys(found)]


def check_unseen(runs: Iterable[Run], known: Sequence[Mapping[str, str]]) -> None:
    """Refuse to judge weights on the very texts they were fitted on.

    Raises:
        DataError: Naming the run.
    """
    for run in runs:
        if asdict(FittedOn(run.fingerprint, run.inputs[0])) in list(known):
            raise DataError(
                f"{run.source}: expected other texts, or those of another model, than the weights were fitted on; got "
                "the same; judge them on another sample"
            )


def _is_positive(outcome: str, changed: bool, positives: Positives) -> bool:
    return outcome == "succeeded" or (positives == "attempted" and changed)


def _row(own: Signals) -> tuple[float, float, float]:
    return own.disagreement, own.escalation, own.concentration


def _scores(name: str, seen: Sequence[Seen], weights: Weights) -> Array:
    if name == "under_attack":
        return np.array([weights.score(own.signals) for own in seen])
    return np.array([getattr(own.signals, name) for own in seen])


def _roc(name: str, seen: Sequence[Seen], scores: Array, seed: int) -> Roc:
    attacked = np.array([own.attacked for own in seen])
    alarms, caught, _ = roc_curve(attacked, scores)
    wins = _wins(scores[attacked], scores[~attacked])
    draws = list(_resampled(seen, attacked, wins, seed))
    low, high = np.percentile(draws, [2.5, 97.5])
    return Roc(
        score=name,
        clean=int((~attacked).sum()),
        attacked=int(attacked.sum()),
        auc=float(wins.mean()),
        low=float(low),
        high=float(high),
        caught=float(caught[alarms <= FALSE_ALARMS].max()),
        points=tuple((round(float(x), 6), round(float(y), 6)) for x, y in zip(alarms, caught, strict=True)),
    )


def _wins(attacked: Array, clean: Array) -> Array:
    """Return which attacked text scores higher than which clean one, (attacked, clean); a tie is half a win."""
    return np.where(attacked[:, None] > clean, 1.0, 0.5 * (attacked[:, None] == clean))


def _resampled(seen: Sequence[Seen], attacked: Array, wins: Array, seed: int) -> Iterator[float]:
    """Yield the AUC of samples drawn anew, inputs with all their texts; those without attacked texts are left out."""
    names, places = np.unique([own.place for own in seen], return_inverse=True)
    rng = generator(derive(seed, "monitoring"))
    for _ in range(_RESAMPLES):
        drawn = torch.randint(len(names), (len(names),), generator=rng).numpy()
        times = np.bincount(drawn, minlength=len(names))[places]
        positive, negative = times[attacked], times[~attacked]
        if positive.sum() and negative.sum():
            yield float(positive @ wins @ negative / (positive.sum() * negative.sum()))
