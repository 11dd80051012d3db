"""How large the experiments are -> data, settings and jobs of each of their steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from rsmi.config import RsmiConfig, TrainConfig
from rsmi.data import TextDataset, load_data
from rsmi.errors import ConfigError, MissingResourceError
from rsmi.evaluation.jobs import Job
from rsmi.experiments.specs import Attacked, Trained
from rsmi.presets import Preset, asked_as, load_preset
from rsmi.settings import updated

MODELS_VARIABLE: Final = "RSMI_MODELS"
"""Environment variable: the folder of model folders that a scale names without a slash."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """What stands for an encoder of the paper."""

    base: str
    """Hub id, `minilm`, or the name of a folder under RSMI_MODELS."""
    label: str
    """What tables call it."""
    parameters: float
    """In millions, without embeddings: what a forward pass costs."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the method that suit it, where a scale has no presets."""
    rates: tuple[float, float] | None = None
    """Learning rates of RSMI and of all others that suit it; None for those of the scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """How a data set is learnt that needs more than the others."""

    texts: int
    """Training texts."""
    epochs: int
    rates: tuple[float, float]
    """Learning rates of RSMI and of all others."""
    own_training: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further settings of training, by how a model is trained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the experiments are."""

    name: str
    encoders: Mapping[str, Encoder]
    """The paper's name of each encoder used, and what is taken for it."""
    compared: tuple[str, ...]
    """Encoders of Tables 1, 5 and 6 and of the figures."""
    large: tuple[str, ...]
    """Encoders of Table 2."""
    studied: str
    """Encoder of Tables 3 and 4, on IMDb."""
    pairs: str
    """Encoder of Tables 7 and 8."""
    seeds: tuple[int, ...]
    """Of Tables 1 and 7; the best of them counts in the paper, all are reported."""
    stability_seeds: tuple[int, ...]
    """Of Table 5."""
    num: int
    """Texts attacked."""
    max_words: int
    """Words of a text, or of each text of a pair, that are read, in training as under attack."""
    train_texts: int | None
    """Training texts; None for all."""
    test_texts: int | None
    """Texts of the accuracy on the whole test set; None for all."""
    augmented: int
    """Training texts attacked for AdvAug."""
    masks: tuple[int, ...]
    """M in Table 3."""
    copies: tuple[int, ...]
    """k in Table 3."""
    counts: tuple[int, ...]
    """Numbers of copies in Figure 3."""
    runs: int
    """Independent runs in Figure 4."""
    timed: int
    """Texts of Table 8."""
    backend: str = "torch"
    presets: bool = True
    """Whether training follows the paper's table of settings; otherwise `settings` and `training` do."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the method at this scale, for every model."""
    own_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further ones, by how a model is trained."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of training, for every model."""
    own_training: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Further ones, by how a model is trained."""
    rates: tuple[float, float] = (1e-5, 5e-5)
    """Learning rates of RSMI and of all others, where there are no presets."""
    harder: Mapping[str, Learning] = field(default_factory=dict)
    """Data sets that are learnt in a way of their own."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Files that stand for data sets of the paper."""
    stand_in: str | None = None
    """An attack that stands for all of the paper's."""
    synonyms: Mapping[str, list[str]] | None = None
    """SAFER's table; None takes the neighbours in counter-fitted vectors."""

    def load(self, data: str, split: str) -> TextDataset:
        """Load a split of a data set."""
        return load_data(self.sources.get(data, data), split).cut(self.max_words)

    def texts_of(self, data: str) -> int | None:
        """Return the number of training texts of a data set; None for all."""
        return self.harder[data].texts if data in self.harder else self.train_texts

    def told_texts(self) -> str:
        """Return the numbers of training texts in words."""
        told = "all training texts" if self.train_texts is None else f"{self.train_texts:,} training texts"
        return told + "".join(f" ({data}: {own.texts:,}, {own.epochs} epochs)" for data, own in self.harder.items())

    def called(self, encoder: str) -> str:
        """Return the name of an encoder without what stands in brackets behind it."""
        return self.encoders[encoder].label.partition(" (")[0]

    def where(self, encoder: str, what: str) -> str:
        """Name a part of a claim, by its encoder too where several are compared."""
        return what if len(self.compared) == 1 else f"{self.called(encoder)}, {what}"

    def preset(self, model: Trained) -> Preset:
        """Return base, settings and training of a model."""
        if model.encoder not in self.encoders:
            raise ConfigError(f"scale {self.name}: expected one of {', '.join(self.encoders)}, got {model.encoder}")
        found = self._starting_point(model)
        suited = self.encoders[model.encoder].settings if model.method == "rsmi" else {}
        own = {**suited, **self.settings, **self.own_settings.get(model.method, {}), **dict(model.changes)}
        config = updated(found.config, **_fitting(found.config, own))
        training = dict(self.training)
        if model.data in self.harder:
            training["epochs"] = self.harder[model.data].epochs
        training.update(self.own_training.get(model.method, {}))
        if model.data in self.harder:
            training.update(self.harder[model.data].own_training.get(model.method, {}))
        return replace(found, config=config, train_config=updated(found.train_config, **training))

    def _starting_point(self, model: Trained) -> Preset:
        if self.presets:
            return load_preset(f"paper/{model.encoder}/{model.data}", model.method)
        rates = self.encoders[model.encoder].rates or self.rates
        if model.data in self.harder:
            rates = self.harder[model.data].rates
        return Preset(
            name=f"{self.name}/{model.encoder}/{model.data}",
            base=self.encoders[model.encoder].base,
            data=model.data,
            config=RsmiConfig.variant(asked_as(model.method)),
            train_config=TrainConfig(method=model.method, learning_rate=rates[model.method != "rsmi"]),
        )

    def base(self, model: Trained) -> str:
        """Return what the model starts from: a hub id, `minilm` or a folder."""
        base = self.encoders[model.encoder].base
        if self.presets or base == "minilm" or os.sep in base:
            return base
        folder = os.environ.get(MODELS_VARIABLE)
        found = None if folder is None else Path(folder) / base
        if found is None or not found.is_dir():
            raise MissingResourceError(
                f"{self.encoders[model.encoder].label}: expected its folder {base} in the folder that "
                f"{MODELS_VARIABLE} names, got {found or 'no such variable'}"
            )
        return str(found)

    def job(self, cell: Attacked, model: Path) -> Job:
        """Return the job of a cell, given the folder of its model."""
        return Job(
            model=str(model),
            data=self.sources.get(cell.model.data, cell.model.data),
            attack=self.stand_in or cell.attack,
            protocol=cell.protocol,
            split={"test": "test", "augment": "train", "choose": "dev"}[cell.purpose],
            num=self.augmented if cell.purpose == "augment" else self.num,
            max_words=self.max_words,
            config=dict(cell.changes),
            seed=0,
            fresh_draws=20,
            backend="torch" if asked_as(cell.model.method) == "plain" else self.backend,
            explained=False,
        )


def _fitting(config: RsmiConfig, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with as many candidates as there are masks, at least."""
    masks = wanted.get("num_masks", config.num_masks)
    candidates = max(wanted.get("num_candidates", config.num_candidates), masks)
    return {**wanted, "num_candidates": candidates} if candidates != config.num_candidates else dict(wanted)
