"""What every kind of certificate has: random copies of texts, and what their votes prove."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rsmi.certify.certificate import Certificate, Substitutions
from rsmi.certify.sampling import Array, Bounds, Cell, Tally
from rsmi.certify.settings import CertifyConfig
from rsmi.errors import NotCertifiable
from rsmi.method.engine import Engine
from rsmi.method.substitution import SynonymTable
from rsmi.method.voting import Smoothed
from rsmi.records import TextInput


@dataclass(frozen=True)
class Smoothing(ABC):
    """A model smoothed in one way."""

    engine: Engine
    settings: CertifyConfig

    def __post_init__(self) -> None:
        dtype = self.engine.loaded.encoder.model.dtype
        if self.engine.config.aggregation != "vote":
            raise NotCertifiable(
                "aggregation='logit-average': averaged logits are unbounded, so that no number of draws bounds them; "
                "certify with aggregation='vote'"
            )
        if str(dtype) != "torch.float32":
            raise NotCertifiable(f"expected weights and noise in float32, got {dtype}; load with dtype='float32'")

    @property
    def smoothed(self) -> Smoothed:
        """The model itself, whatever backend answers: certificates are about the weights as they were trained."""
        return replace(self.engine.smoothed, encoder=self.engine.loaded.encoder)

    @property
    @abstractmethod
    def space(self) -> str:
        """Where the radius is measured."""

    @property
    def noise_std(self) -> float:
        """Of the noise that the radius rests on; 0 for words."""
        return 0.0

    def strata(self, text: TextInput) -> int:
        """Return how many classifiers must agree on a text."""
        return 1

    @abstractmethod
    def votes(self, texts: Sequence[TextInput], asked: Mapping[Cell, Sequence[int]]) -> dict[Cell, Array]:
        """Draw copies of texts, one a key, and return the class that each chose."""

    @abstractmethod
    def level(self, text: TextInput, radius: float) -> float:
        """Return what the class's probability must exceed for this radius, with nothing known of the other classes."""

    @abstractmethod
    def radius(self, text: TextInput, bounds: Bounds, tally: Tally, failure_prob: float) -> float:
        """Return the radius that votes prove. `tally` is that of the classifier with the least bound."""

    @abstractmethod
    def distance(self, text: TextInput, other: TextInput) -> float | None:
        """Return the distance of two texts in `space`; None where they cannot be compared."""

    @abstractmethod
    def covers(self, certificate: Certificate, other: TextInput) -> bool | None:
        """Whether `other` is within the radius; None where the two cannot be compared."""

    @abstractmethod
    def substitutions(self, certificate: Certificate, table: SynonymTable) -> Substitutions:
        """Count the words that may be replaced."""

    def joint_radius(self, certificate: Certificate, changed: int) -> float:
        """Refuse, unless words are hidden and embeddings noisy."""
        raise NotCertifiable(f"kind={self.settings.kind!r}: expected l0-mask on a model with noise at its embeddings")
