"""Plain words -> an attack ready to run: the same in this process, in another one, or on another machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsmi.attacks.catalogue import make_attack
from rsmi.classifier import RsmiClassifier
from rsmi.data import TextDataset, load_data
from rsmi.defense import Target
from rsmi.errors import ConfigError, DataError
from rsmi.evaluation.attacking import side_by_side, with_evidence
from rsmi.evaluation.protocols import FRESH_DRAWS, WHITE_BOX, Setup, set_up
from rsmi.opening import open_classifier
from rsmi.records import AttackRecord
from rsmi.targets.opening import is_foreign, open_target

_CALIBRATED = 500  # dev texts that a temperature is fitted to


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One model, sample, attack and protocol. Holds names and numbers only, so that it can be sent anywhere."""

    model: str
    """A model folder or hub id; `pipeline:` and either of them; or an address, `http://...`."""
    foreign: Mapping[str, Any] = field(default_factory=dict)
    """Of a model that is not ours: further arguments of `open_target`, such as `classes` and `rename`."""
    data: str
    """A named set, a file or a hub id."""
    attack: str = "textfooler"
    attack_settings: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the attack's constructor, such as `max_queries`."""
    protocol: str = "paper"
    draws: int = 20
    """Under `eot`."""
    tries: int = 5
    """Under `persistent`."""
    fresh_draws: int = FRESH_DRAWS
    split: str = "test"
    columns: Mapping[str, str | None] = field(default_factory=dict)
    """`text_column`, `pair_column` and `label_column` of a file or a hub set."""
    num: int = 100
    """Texts to attack; all, where there are fewer."""
    sample_seed: int = 0
    stratified: bool = False
    max_words: int = 256
    """The paper attacks the first 256 words of a text."""
    variant: str | None = None
    """Variant of the method; None for the model's own settings."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the method that differ from those."""
    seed: int = 0
    """Of the model's noise and of the attack."""
    device: str | None = None
    dtype: str = "float32"
    backend: str = "torch"
    token_budget: int | None = None
    together: int | None = None
    """Texts attacked side by side; None for what suits the model."""
    explained: bool = True
    """Keep votes and salient tokens in the records."""

    def load(self, split: str) -> TextDataset:
        """Load a split of the data."""
        names: dict[str, Any] = dict(self.columns)
        return load_data(self.data, split, **names)

    def sample(self) -> TextDataset:
        """Return the texts to attack."""
        return self._taken(self.load(self.split))

    def _taken(self, rows: TextDataset) -> TextDataset:
        return rows.take(min(self.num, len(rows)), self.sample_seed, self.stratified).cut(self.max_words)

    def classifier(self) -> RsmiClassifier:
        """Load the model."""
        return open_classifier(
            self.model,
            self.variant,
            self.config,
            seed=self.seed,
            device=self.device,
            dtype=self.dtype,
            backend=self.backend,
            token_budget=self.token_budget,
            progress=False,
        )

    def target(self, rows: TextDataset) -> Target:
        """Load the model, or reach for it where it is not ours.

        Args:
            rows: The data, whose names its classes get.

        Raises:
            ConfigError: If settings do not fit the kind of model.
        """
        if not is_foreign(self.model):
            if self.foreign:
                raise ConfigError(
                    f"{', '.join(self.foreign)}: expected a model that is not ours (pipeline:NAME or http://...), got "
                    f"{self.model}; leave it out"
                )
            return self.classifier()
        ours = {"variant": self.variant, "config": self.config, "token_budget": self.token_budget}
        unfit = [name for name, value in ours.items() if value] + ["backend"] * (self.backend != "torch")
        if unfit:
            raise ConfigError(f"{unfit[0]}: expected none for a model that is not ours, got some; leave it out")
        if self.attack in WHITE_BOX:
            raise ConfigError(
                f"attack: expected one that needs answers alone for a model that is not ours, such as textfooler; got "
                f"{self.attack}, which differentiates it"
            )
        return open_target(self.model, rows.classes, device=self.device, dtype=self.dtype, **self.foreign)

    def open(self, loaded: RsmiClassifier | None = None) -> OpenJob:
        """Load everything that the job needs; `loaded` is what `classifier` returned, where that was called already."""
        rows = self.load(self.split)
        sample, classifier = self._taken(rows), loaded or self.target(rows)
        setup = set_up(
            self.protocol,
            classifier,
            self._make_attack,
            draws=self.draws,
            tries=self.tries,
            dev=self._held_out(sample) if self.protocol == "temperature" else None,
            fresh_draws=self.fresh_draws,
        )
        return OpenJob(self, classifier, setup, sample)

    def _make_attack(self, **wanted: Any) -> Any:
        return make_attack(self.attack, **{**wanted, **self.attack_settings})

    def _held_out(self, sample: TextDataset) -> TextDataset:
        """Return texts to calibrate on, none of them among those attacked."""
        attacked = set(sample.texts)
        dev = self.load("dev").cut(self.max_words)
        free = [place for place, text in enumerate(dev.texts) if text not in attacked]
        if not free:
            raise DataError(f"{self.data}: expected dev texts that are not attacked, to calibrate on; got none")
        kept = dev.rows(free)
        return kept.take(min(_CALIBRATED, len(kept)), 0)


@dataclass(frozen=True, slots=True)
class OpenJob:
    """A job with its model loaded."""

    job: Job
    classifier: Target
    """What is attacked: ours, or another."""
    setup: Setup
    sample: TextDataset

    @property
    def together(self) -> int:
        """Texts attacked side by side."""
        return side_by_side(self.classifier, self.job.together)

    def run(self, places: Sequence[int]) -> Iterator[tuple[int, AttackRecord]]:
        """Attack the texts at some places of the sample; a record depends on its own text alone."""
        explain = None
        if self.job.explained and isinstance(self.classifier, RsmiClassifier):  # others do not say what they saw
            explain = self.classifier.explain
        for place, record in self.setup.attack.run(
            self.setup.target,
            self.sample.texts,
            self.sample.labels,
            seed=self.job.seed,
            together=self.together,
            columns=self.sample.columns,
            only=places,
            deployed=self.setup.deployed,
        ):
            yield place, record if explain is None else with_evidence(record, explain)
