"""What an experiment is made of: models to train, ways to attack them, things to measure; names, not objects."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from rsmi.config import VARIANTS, Method

Changes: TypeAlias = tuple[tuple[str, Any], ...]
"""Settings of the method that differ from those of the encoder and the data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model of the paper: an encoder trained by a method on a data set."""

    encoder: str
    """What the paper calls it: `bert-base`, `roberta-large`..."""
    data: str
    method: Method = "rsmi"
    changes: Changes = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """A name for its folder."""
        seed = (f"seed{self.seed}",) if self.seed else ()
        return "-".join((self.data, self.encoder, self.method, *_words(self.changes), *seed))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """A model attacked in one way: one cell of a table."""

    model: Trained
    attack: str = "textfooler"
    changes: Changes = ()
    """Settings at inference that differ from those in training."""
    protocol: str = "paper"
    purpose: Literal["test", "augment", "choose"] = "test"
    """`augment`: training texts are attacked, to be added to the training set (AdvAug). `choose`: dev texts are, to
    choose settings by."""

    @property
    def name(self) -> str:
        """A name for its file of records."""
        kind = () if self.purpose == "test" else (self.purpose,)
        return ".".join((self.model.name, *_words(self.changes), self.attack, self.protocol, *kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Something else that is measured about models: see `measures.py`."""

    what: Literal["accuracy", "layers", "stability", "training-time", "inference-time", "splits"]
    models: tuple[Trained, ...] = ()
    changes: tuple[Changes, ...] = ()
    """Settings at inference, one for each model; none: as trained."""
    attacked: Attacked | None = None
    """The run whose texts are measured."""
    data: str = ""
    split: Literal["test", "dev"] = "test"
    """Whose texts accuracy and inference time are measured on."""

    @property
    def name(self) -> str:
        """A name for its file."""
        parts = [model.name + "".join(f"-{word}" for word in _words(own)) for model, own in self.pairs]
        if self.attacked is not None:
            parts.append(self.attacked.name)
        parts += [self.data] if self.data else []
        joined = "+".join(parts)
        if len(joined) > 120:  # file systems have limits
            joined = hashlib.blake2b(joined.encode(), digest_size=8).hexdigest()
        return f"{self.what}.{joined}" + ("" if self.split == "test" else f".{self.split}")

    @property
    def pairs(self) -> tuple[tuple[Trained, Changes], ...]:
        """The models with their settings at inference."""
        return tuple(zip(self.models, self.changes or ((),) * len(self.models), strict=True))


Step: TypeAlias = Trained | Attacked | Measured
"""Something that is done once, whatever number of tables needs it."""


def variant(name: str, **more: Any) -> Changes:
    """Return the settings that make a variant of the method."""
    return changes(**{**VARIANTS[name], **more})


def changes(**settings: Any) -> Changes:
    """Return settings in a fixed order."""
    return tuple(sorted(settings.items()))


def needs(step: Step) -> tuple[Step, ...]:
    """Return what must be done right before a step."""
    if isinstance(step, Trained):
        if step.method != "advaug":
            return ()
        return (augmenting(step),)
    if isinstance(step, Attacked):
        return (step.model,)
    trained = () if step.what == "training-time" else step.models
    return trained if step.attacked is None else (*trained, step.attacked)


def rests_on(step: Step, model: Trained) -> bool:
    """Return whether a step has to be done again when a model is."""
    return any(other == model or rests_on(other, model) for other in needs(step))


def augmenting(model: Trained) -> Attacked:
    """Return the attack that makes the texts of an AdvAug model; the paper does not say which it was."""
    return Attacked(model=replace(model, method="finetune"), attack="textfooler", purpose="augment")


def ordered(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with all that they need, each once, after what it needs, and all that one model is for together.

    So a run that stops between two models leaves nothing to do for which weights must be trained again.
    """
    found: dict[Step, None] = {}

    def add(step: Step) -> None:
        if step not in found:
            for other in needs(step):
                add(other)
            found[step] = None

    for step in steps:
        add(step)
    places = {step: place for place, step in enumerate(found) if isinstance(step, Trained)}
    return tuple(sorted(found, key=lambda step: max((places.get(model, 0) for model in _models_of(step)), default=0)))


def _models_of(step: Step) -> tuple[Trained, ...]:
    if isinstance(step, Trained):
        return (step,)
    return (step.model,) if isinstance(step, Attacked) else step.models


def _words(settings: Changes) -> tuple[str, ...]:
    """Return settings as words for a file name; a known variant by its name."""
    values = dict(settings)
    fitting = [name for name, own in VARIANTS.items() if own and own.items() <= values.items()]
    if not fitting:
        return _plain(values)
    name = max(fitting, key=lambda each: len(VARIANTS[each]))
    return (name, *_plain({key: value for key, value in values.items() if key not in VARIANTS[name]}))


def _plain(values: dict[str, Any]) -> tuple[str, ...]:
    return tuple(f"{key}={json.dumps(value).strip(chr(34))}" for key, value in sorted(values.items()))
