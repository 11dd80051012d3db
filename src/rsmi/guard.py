"""A classifier -> a guard: what to block at a false-positive rate, what to have reviewed, what always passes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np
from scipy.stats import binom

from rsmi.config import RsmiConfig
from rsmi.errors import CheckpointError, ConfigError, LabelError
from rsmi.method.inputs import as_labelled, as_texts
from rsmi.method.windows import Windower
from rsmi.records import Label, Prediction, TextInput
from rsmi.writing import write_text

if TYPE_CHECKING:
    from rsmi.method.engine import Engine

FILE_NAME = "rsmi_guard.json"
Action: TypeAlias = Literal["pass", "review", "block"]
Scores: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What a guard says about a text."""

    text: TextInput
    action: Action
    score: float
    """Probability of the class that is guarded against; of a long text, that of its worst window."""
    windows: int
    """Parts that the text was read in."""
    reason: Literal["allow-list", "score", "abstained"]
    """What decided: the text is on the allow-list; its score; or the votes were too close to call."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A score above which something is done, and what it did on the texts it was chosen on."""

    value: float
    """Texts with a higher score are meant."""
    max_rate: float
    """Largest share of harmless texts that was allowed for."""
    confidence: float
    """With this probability over the choice of the dev texts, at most `max_rate` of all harmless texts are meant."""
    negatives: int
    """Harmless dev texts."""
    false_positives: int
    """How many of them are meant."""
    positives: int
    """Other dev texts."""
    caught: int
    """How many of those are meant."""

    @property
    def recall(self) -> float:
        """Share of the texts guarded against that is meant, on the dev texts."""
        return self.caught / self.positives if self.positives else float("nan")


class Scoring(Protocol):
    """What a guard asks of a classifier."""

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The classes."""
        ...

    @property
    def config_(self) -> RsmiConfig:
        """The settings in force."""
        ...

    def with_config(self, config: RsmiConfig) -> Scoring:
        """Return a classifier with other settings and the same weights."""
        ...

    def engine(self, draw: int = 0) -> Engine:
        """Return the loaded model with the settings in force."""
        ...

    def explain(self, texts: Sequence[TextInput]) -> list[Prediction]:
        """Return each decision with its probabilities."""
        ...


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Blocks what a classifier holds to be of one class, at a false-positive rate; see `RsmiClassifier.calibrate`.

    A text on the allow-list passes unread. A text longer than the model reads is read in overlapping windows, and the
    worst one counts: nothing can be hidden behind a long beginning. Where the classifier abstains, or the score is in
    the band below the threshold, a person should look.
    """

    classifier: Scoring
    positive: Label
    block: Threshold
    review: Threshold | None = None
    allow: frozenset[str] = frozenset()
    """Texts that always pass, white space aside. Whole texts only: a pattern would be a way in."""

    def check(self, texts: Sequence[TextInput]) -> list[Ruling]:
        """Say what to do with each text."""
        checked = as_texts(texts)
        read = [text for text in checked if not self._allowed(text)]
        rulings = iter(score_texts(self.classifier, read, self.positive, self._windower))
        return [
            Ruling(text=text, action="pass", score=0.0, windows=0, reason="allow-list")
            if self._allowed(text)
            else self._rule(text, next(rulings))
            for text in checked
        ]

    @cached_property
    def _windower(self) -> Windower:
        return _windower_of(self.classifier)

    def _rule(self, text: TextInput, scored: Scored) -> Ruling:
        action: Action = "pass"
        if scored.score > self.block.value:
            action = "block"
        elif scored.abstained or (self.review is not None and scored.score > self.review.value):
            action = "review"
        reason: Literal["score", "abstained"] = "abstained" if scored.abstained and action == "review" else "score"
        return Ruling(text=text, action=action, score=scored.score, windows=scored.windows, reason=reason)

    def _allowed(self, text: TextInput) -> bool:
        return isinstance(text, str) and _plain(text) in self.allow

    def save(self, folder: str | Path) -> None:
        """Write the thresholds and the allow-list beside a saved classifier."""
        values = {
            "positive": self.positive,
            "block": asdict(self.block),
            "review": None if self.review is None else asdict(self.review),
            "allow": sorted(self.allow),
        }
        write_text(Path(folder) / FILE_NAME, json.dumps(values, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: str | Path, classifier: Scoring) -> Guard:
        """Read what `save` wrote; `classifier` must be the one it was calibrated for."""
        path = Path(folder) / FILE_NAME
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            review = values["review"]
            guard = cls(
                classifier=classifier,
                positive=values["positive"],
                block=Threshold(**values["block"]),
                review=None if review is None else Threshold(**review),
                allow=frozenset(values["allow"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{path}: expected the thresholds of a guard, got {type(error).__name__}: {error}; calibrate again"
            ) from error
        _check_class(classifier, guard.positive)
        return guard


class Guarding:
    """Lets a classifier be calibrated into a guard."""

    def calibrate(
        self: Scoring,
        texts: Sequence[TextInput],
        labels: Sequence[Label],
        positive: Label,
        *,
        max_fpr: float = 0.01,
        max_review: float | None = None,
        confidence: float = 0.95,
        allow: Iterable[str] = (),
    ) -> Guard:
        """Choose the lowest threshold that blocks at most a share `max_fpr` of harmless texts.

        The choice is exact for a finite dev set: with probability `confidence` over its draw, the true rate on texts of
        the same kind is at most `max_fpr`. It says nothing about texts of another kind, or about an attacker's.

        Args:
            texts: Texts that the model was not trained on.
            labels: Their classes.
            positive: The class to guard against.
            max_fpr: Largest share of all other texts that may be blocked.
            max_review: Largest share of them that may be blocked or sent to review; None sends only abstentions there.
            confidence: Of both promises together.
            allow: Texts that always pass.

        Raises:
            ConfigError: If there are too few texts to promise that.
        """
        checked, known = as_labelled(texts, labels)
        _check_class(self, positive)
        scores = np.array([own.score for own in score_texts(self, checked, positive, _windower_of(self))])
        harmful = np.array([label == positive for label in known])
        shared = confidence if max_review is None else (1 + confidence) / 2  # two promises share what may go wrong
        block = choose_threshold(scores, harmful, max_fpr, shared)
        review = None if max_review is None else choose_threshold(scores, harmful, max_review, shared)
        if review is not None and review.value > block.value:
            raise ConfigError(f"max_review: expected at least max_fpr ({max_fpr}), got {max_review}")
        allowed = frozenset(_plain(text) for text in allow)
        return Guard(classifier=self, positive=positive, block=block, review=review, allow=allowed)


@dataclass(frozen=True, slots=True)
class Scored:
    """How likely a text is of a class, over all of its windows."""

    score: float
    windows: int
    abstained: bool


def score_texts(classifier: Scoring, texts: Sequence[TextInput], positive: Label, windower: Windower) -> list[Scored]:
    """Read texts, long ones in windows, and return the largest probability of a class over each one's windows.

    Logits are averaged rather than votes counted, unless the classifier abstains: five votes make six scores, too few
    to choose a threshold from.
    """
    if classifier.config_.stop != "sequential":
        classifier = classifier.with_config(replace(classifier.config_, aggregation="logit-average"))
    cuts = [windower.cut(text) for text in texts]
    found = iter(classifier.explain([window.text for cut in cuts for window in cut.windows]))
    scored = []
    for cut in cuts:
        own = [next(found) for _ in cut.windows]
        worst = max(prediction.probabilities[positive] for prediction in own)
        scored.append(Scored(float(worst), len(own), any(prediction.abstained for prediction in own)))
    return scored


def choose_threshold(scores: Scores, harmful: np.ndarray[Any, Any], max_rate: float, confidence: float) -> Threshold:
    """Return the lowest threshold above which surely at most a share `max_rate` of harmless texts lies.

    With n harmless texts, k of them may lie above it where P[Bin(n, max_rate) <= k] <= 1 - confidence: were the true
    rate higher, so few would be a surprise.
    """
    for name, value in (("max_fpr", max_rate), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ConfigError(f"{name}: expected a number between 0 and 1, got {value}")
    harmless = np.sort(scores[~harmful])[::-1]
    if len(harmless) == 0 or not harmful.any():
        raise LabelError("expected texts of the class to guard against and others, got only one of the two")
    allowed = int(binom.ppf(1 - confidence, len(harmless), max_rate))  # least k with P <= k at or above
    if binom.cdf(allowed, len(harmless), max_rate) > 1 - confidence:
        allowed -= 1
    if allowed < 0:
        needed = int(np.ceil(np.log(1 - confidence) / np.log(1 - max_rate)))
        raise ConfigError(
            f"max_fpr={max_rate}: expected at least {needed} harmless texts to promise that with confidence "
            f"{confidence}, got {len(harmless)}; pass more texts, or a larger rate"
        )
    value = float(harmless[allowed]) if allowed < len(harmless) else float("-inf")
    return Threshold(
        value=value,
        max_rate=max_rate,
        confidence=confidence,
        negatives=len(harmless),
        false_positives=int((harmless > value).sum()),
        positives=int(harmful.sum()),
        caught=int((scores[harmful] > value).sum()),
    )


def _windower_of(classifier: Scoring) -> Windower:
    engine = classifier.engine()
    return Windower(engine.loaded.tokenizer, engine.max_tokens)


def _check_class(classifier: Scoring, positive: Label) -> None:
    classes = classifier.classes_.tolist()
    if positive not in classes:
        raise LabelError(f"positive: expected one of the classes {classes}, got {positive!r}")


def _plain(text: str) -> str:
    return " ".join(text.split())
