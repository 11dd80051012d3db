"""How an attacker sees a defense: the protocols of the evaluation, views of the target or changes of the attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from scipy.optimize import minimize_scalar

from rsmi.attacks.base import Attack
from rsmi.attacks.maskaware import BelowSaliency
from rsmi.attacks.substitution import WordSubstitution
from rsmi.attacks.transfer import Transfer
from rsmi.attacks.victim import Array, ask_each, ask_target
from rsmi.classifier import RsmiClassifier
from rsmi.config import Aggregation
from rsmi.data import TextDataset
from rsmi.defense import Target
from rsmi.errors import ConfigError, LabelError
from rsmi.method.engine import Engine
from rsmi.records import Label, TextInput
from rsmi.settings import nearest

PROTOCOLS: Final = {
    "paper": "one cached draw a text, logits averaged: comparable with the paper's Table 1",
    "vote": "the same with majority voting and one-hot scores: the paper's Table 6",
    "eot": "scores averaged over fresh draws, nothing cached",
    "fixed-noise": "all randomness frozen for the attacker",
    "temperature": "scores rescaled to the temperature that fits the dev set",
    "transfer": "texts found against the same weights without noise and masks",
    "white-box": "gradients averaged over draws, masks passed straight through",
    "mask-aware": "changes spread over words that the defense will not hide",
    "persistent": "attacked again, under other draws, until it fails",
}
"""Name of each protocol and what the attacker may do under it."""

FRESH_DRAWS: Final = 100
"""How often everything found is asked about again."""
WHITE_BOX: Final = ("hotflip", "gbda")
"""Attacks that differentiate the target."""
BY_ANSWERS: Final = ("paper", "eot", "temperature", "persistent")
"""Protocols that need nothing but answers: those for models that are not ours."""


@dataclass(frozen=True, slots=True)
class Setup:
    """An attack under a protocol, ready to run."""

    target: Target
    """What the attacker asks."""
    attack: Attack
    deployed: Target
    """What is asked again about everything he finds."""
    about: dict[str, Any]
    """Name and settings of the protocol, for the record of a run."""


class View:
    """A target seen through something."""

    redraws = False

    def __init__(self, target: Target) -> None:
        self.target = target
        self.classes_, self.randomised, self.uses_gradients = target.classes_, target.randomised, target.uses_gradients

    def query(self, texts: Sequence[TextInput], draw: int = 0) -> Array:
        """Return probabilities as the attacker sees them, (texts, classes)."""
        return self.query_each(texts, [draw] * len(texts))

    def query_each(self, texts: Sequence[TextInput], draws: Sequence[int]) -> Array:
        """Return the same, each text under a draw of its own."""
        return self.seen(ask_each(self.target, texts, draws))

    def seen(self, rows: Array) -> Array:
        """Change what the target says."""
        return rows

    def engine(self, draw: int = 0) -> Engine | None:
        """Return the model, where the target gives it away."""
        return self.target.engine(draw) if isinstance(self.target, RsmiClassifier | View) else None


class OneHot(View):
    """Only the winner is told."""

    def seen(self, rows: Array) -> Array:
        """Return 1 for the winner, 0 for the others."""
        told: Array = np.eye(rows.shape[1])[rows.argmax(1)]
        return told


class Averaged(View):
    """Every answer is the mean of some fresh draws, another one each time a text is asked about."""

    redraws = True

    def __init__(self, target: Target, draws: int) -> None:
        super().__init__(target)
        self.draws = draws

    def query_each(self, texts: Sequence[TextInput], draws: Sequence[int]) -> Array:
        """Return mean probabilities."""
        each = [
            (text, draw * self.draws + i) for text, draw in zip(texts, draws, strict=True) for i in range(self.draws)
        ]
        rows = ask_each(self.target, [text for text, _ in each], [draw for _, draw in each])
        mean: Array = rows.reshape(len(texts), self.draws, rows.shape[1]).mean(1)
        return mean


class Tempered(View):
    """Scores are raised to the power 1 / temperature and scaled to add up to 1."""

    def __init__(self, target: Target, temperature: float) -> None:
        super().__init__(target)
        self.temperature = temperature

    def seen(self, rows: Array) -> Array:
        """Return probabilities at the temperature."""
        return at_temperature(rows, self.temperature)


class Frozen(View):
    """Every text meets the same noise and the same draw of masks."""

    def __init__(self, classifier: RsmiClassifier) -> None:
        super().__init__(classifier)
        self._classifier = classifier

    def query_each(self, texts: Sequence[TextInput], draws: Sequence[int]) -> Array:
        """Return probabilities under frozen draws."""
        return self.engine().probabilities(list(texts), list(draws))

    def engine(self, draw: int = 0) -> Engine:
        """Return the model with its randomness frozen."""
        return replace(self._classifier.engine(draw), frozen=True)


def at_temperature(rows: Array, temperature: float) -> Array:
    """Rescale probabilities, (texts, classes); a temperature above 1 makes them less extreme."""
    logits = np.log(np.clip(rows, 1e-12, None)) / temperature
    powers = np.exp(logits - logits.max(1, keepdims=True))
    scaled: Array = powers / powers.sum(1, keepdims=True)
    return scaled


def calibrated_temperature(target: Target, texts: Sequence[TextInput], labels: Sequence[Label]) -> float:
    """Return the temperature that makes the labels of held-out texts most likely (Guo et al. 2017).

    It has three digits: the last bits of answers follow the number of threads, and a run must be resumed as it began.
    """
    numbers = {label: number for number, label in enumerate(target.classes_.tolist())}
    unknown = next((label for label in labels if label not in numbers), None)
    if unknown is not None or not texts:
        raise LabelError(f"expected texts with labels of {list(numbers)}, got {unknown!r}")
    rows = ask_target(target, texts)
    golds = np.array([numbers[label] for label in labels])

    def loss(log_temperature: float) -> float:
        scaled = at_temperature(rows, float(np.exp(log_temperature)))
        return float(-np.log(np.clip(scaled[np.arange(len(golds)), golds], 1e-12, None)).mean())

    best = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded", options={"xatol": 1e-8}).x
    return float(f"{np.exp(best):.3g}")


def set_up(
    protocol: str,
    classifier: Target,
    make_attack: Callable[..., Attack],
    *,
    draws: int = 20,
    tries: int = 5,
    dev: TextDataset | None = None,
    fresh_draws: int = FRESH_DRAWS,
) -> Setup:
    """Put an attack on a classifier under a protocol.

    Args:
        protocol: One of `PROTOCOLS`.
        classifier: What is attacked; one of ours needs a seed. It is not changed.
        make_attack: Called with further settings of the attack, `fresh_draws` and `tries`.
        draws: Under `eot`, draws that an answer averages over.
        tries: Under `persistent`, how often an input is attacked at most.
        dev: Under `temperature`, texts to calibrate on: never the ones attacked.
        fresh_draws: How often a success is asked about again.

    Raises:
        ConfigError: If the protocol does not exist, or cannot be had for this classifier or attack.
    """
    if protocol not in PROTOCOLS:
        raise ConfigError(
            f"protocol: expected one of {', '.join(PROTOCOLS)}; got {protocol!r}{nearest(protocol, PROTOCOLS)}"
        )
    deployed = _deployed(protocol, classifier)
    attack = make_attack(fresh_draws=fresh_draws, **({"tries": tries} if protocol == "persistent" else {}))
    about: dict[str, Any] = {"name": protocol, "label": protocol, "fresh_draws": fresh_draws}
    if isinstance(deployed, RsmiClassifier) and protocol not in BY_ANSWERS:
        return _set_up_inside(protocol, deployed, attack, about)
    target: Target = deployed
    if protocol == "eot":
        target, about = Averaged(deployed, draws), {**about, "label": f"eot-{draws}", "draws": draws}
    elif protocol == "temperature":
        if dev is None:
            raise ConfigError("protocol temperature: expected dev texts to calibrate on, got none; pass some as dev=")
        temperature = calibrated_temperature(deployed, dev.texts, dev.labels)
        target = Tempered(deployed, temperature)
        about |= {"temperature": temperature, "dev": {"fingerprint": dev.fingerprint, "num": len(dev)}}
    elif protocol == "persistent":
        about |= {"tries": tries}
    return Setup(target, attack, deployed, about)


def _deployed(protocol: str, classifier: Target) -> Target:
    """Return what answers users: one of our models as the protocol aggregates it, any other as it is."""
    if not isinstance(classifier, RsmiClassifier):
        if protocol not in BY_ANSWERS:
            raise ConfigError(
                f"protocol: expected one of {', '.join(BY_ANSWERS)} for a model that is not ours, of which only the "
                f"answers are known; got {protocol!r}"
            )
        return classifier
    if classifier.seed is None:
        raise ConfigError("expected a classifier with a seed, so that a run can be repeated; got seed=None")
    return _with(classifier, "vote" if protocol == "vote" else "logit-average")


def _set_up_inside(protocol: str, deployed: RsmiClassifier, attack: Attack, about: dict[str, Any]) -> Setup:
    """Set up a protocol that looks into the model."""
    target: Target = deployed
    if protocol == "vote":
        target = OneHot(deployed)
    elif protocol == "fixed-noise":
        target = Frozen(deployed)
    elif protocol == "transfer":
        attack = Transfer(attack, deployed.with_config(deployed.config_.as_variant("plain")))
    elif protocol == "white-box" and attack.name not in WHITE_BOX:
        raise ConfigError(f"protocol white-box: expected one of {', '.join(WHITE_BOX)}, got {attack.name}")
    elif protocol == "mask-aware":
        if not isinstance(attack, WordSubstitution) or not deployed.uses_gradients:
            raise ConfigError(
                f"protocol mask-aware: expected an attack that replaces words one by one, on a model that masks by "
                f"gradient; got {attack.name} on masking={deployed.config_.masking!r}"
            )
        attack.ranking = BelowSaliency(attack.ranking, deployed)
    return Setup(target, attack, deployed, about)


def as_it_is(classifier: RsmiClassifier, attack: Attack) -> Setup:
    """Attack a classifier as it answers users, under no protocol: to find training texts, not to measure it."""
    return Setup(classifier, attack, classifier, {"name": "as-it-is", "label": "as-it-is"})


def _with(classifier: RsmiClassifier, aggregation: Aggregation) -> RsmiClassifier:
    config = classifier.config_
    if config.stop == "sequential":  # which counts votes and may abstain; an attacker sees their shares
        return classifier
    return classifier.with_config(replace(config, aggregation=aggregation))


def protocols_for(classifier: Target, attack: str) -> list[str]:
    """Return the protocols that say something about a classifier under an attack.

    What does not depend on draws, gradients or masks of its own looks the same under most of them.
    """
    if attack in WHITE_BOX:
        return ["white-box"]
    random = ["eot", "fixed-noise", "transfer", "persistent"] if classifier.randomised else []
    masked = ["vote", "mask-aware"] if classifier.uses_gradients else []
    return ["paper", "temperature", *random, *masked]
