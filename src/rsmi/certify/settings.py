"""Frozen settings of a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rsmi.config import RsmiConfig
from rsmi.errors import ConfigError, NotCertifiable
from rsmi.settings import check_types, known_fields, require

Kind = Literal["l2-hidden", "l2-embedding", "l0-mask", "synonym", "edit"]
CertifiedMasking = Literal["none", "in-noise", "all-masks"]
Bound = Literal["pa", "bonferroni", "refined", "sequential"]

_LITERALS: dict[str, Any] = {"kind": Kind, "masking": CertifiedMasking, "bound": Bound}
_THEOREM = "theorem-1"
_REFUSED = {
    ("kind", _THEOREM): (
        "Theorem 1 of the paper is false: an answer can change inside its radius (rsmi.certify.paper_radius says how); "
        "choose kind l2-hidden, l2-embedding, l0-mask, synonym or edit"
    ),
    ("masking", "gradient"): (
        "masks chosen by the gradient of the clean text can change with it, however small the change, so no radius "
        "holds; choose masking in-noise (masks chosen from the noisy text) or all-masks (every choice of masks)"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyConfig:
    """What to certify, and how surely."""

    kind: Kind = "l2-hidden"
    """Against what: `l2-hidden`, `l2-embedding` (movements there), `l0-mask` (any change of some words), `synonym`
    (words replaced by synonyms) or `edit` (words inserted, deleted or replaced)."""
    masking: CertifiedMasking = "none"
    """Which classifier: without gradient masks, with masks chosen from what is noisy already, or with any masks."""
    selection_samples: int = 100
    """Draws that pick the class (Cohen et al.: n0)."""
    estimation_samples: int = 1000
    """Independent draws that bound its probability (Cohen et al.: n)."""
    failure_prob: float = 1e-3
    """Chance that the certificate of a text is wrong (Cohen et al.: alpha). For a claim about N texts at once, divide
    by N."""
    bound: Bound = "pa"
    """`pa` bounds the top class only; `bonferroni` all classes, better where the others share the rest; `refined`
    (l0-mask) counts the votes that did not see each word; `sequential` holds at all times, so that drawing ends as soon
    as `radius` is reached."""
    radius: float | None = None
    """The radius wanted: drawing ends once it is certain that it is reached, or that it cannot be. None draws all and
    certifies as much as they allow."""

    def __post_init__(self) -> None:
        for (name, value), why in _REFUSED.items():
            if getattr(self, name) == value:
                raise NotCertifiable(f"{name}={value!r}: {why}")
        check_types(self, _LITERALS, {"radius": float})
        for name in ("selection_samples", "estimation_samples"):
            require(getattr(self, name) >= 1, name, "an integer >= 1", getattr(self, name))
        require(0 < self.failure_prob < 1, "failure_prob", "a number between 0 and 1", self.failure_prob)
        if self.radius is not None:
            require(math.isfinite(self.radius) and self.radius >= 0, "radius", "a finite number >= 0", self.radius)
        if self.bound == "refined" and self.kind != "l0-mask":
            raise ConfigError(f"bound='refined': expected kind='l0-mask', got {self.kind!r}")
        if self.bound == "sequential" and self.radius is None:
            raise ConfigError("bound='sequential': expected a radius at which to stop, got none")
        if self.masking == "all-masks" and not self.gaussian:
            raise ConfigError(f"masking='all-masks': expected kind l2-hidden or l2-embedding, got {self.kind!r}")

    @classmethod
    def suited(cls, config: RsmiConfig, **settings: Any) -> CertifyConfig:
        """Return settings for a model: the kind of certificate that it was trained for, unless another is named."""
        if settings.get("kind") is None:
            settings["kind"] = _suited_kind(config)
        return cls(**known_fields(cls, settings))

    @property
    def gaussian(self) -> bool:
        """Whether the certificate rests on Gaussian noise."""
        return self.kind in ("l2-hidden", "l2-embedding")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> CertifyConfig:
        """Build from plain JSON values; unknown names are refused."""
        return cls(**known_fields(cls, values))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


def _suited_kind(config: RsmiConfig) -> Kind:
    if config.word_mask_rate > 0:
        return "l0-mask"
    if config.word_deletion_rate > 0:
        return "edit"
    if config.substitution:
        return "synonym"
    return "l2-embedding" if config.embedding_noise_std > 0 else "l2-hidden"
