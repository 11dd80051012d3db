"""Records -> curves: what stands up to how much effort, how far a confidence can be trusted."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rsmi.errors import InputError
from rsmi.evaluation.certifying import CertifiedAccuracy, read_certificates
from rsmi.evaluation.robustness import Share
from rsmi.evaluation.runs import Run
from rsmi.records import AttackRecord

_BINS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """How many inputs are left as the attacker may go farther; falls in steps."""

    start: int
    """Inputs that were right before the attack."""
    total: int
    """All inputs."""
    steps: tuple[tuple[float, int], ...]
    """Effort at which inputs fall, and how many are left once that much is allowed."""
    end: float
    """The farthest that any attack went."""

    def at(self, effort: float) -> Share:
        """Return robust accuracy when the attacker may go so far and no farther."""
        place = bisect_right(self.steps, effort, key=lambda step: step[0])
        return Share(count=self.steps[place - 1][1] if place else self.start, total=self.total)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self) | {"steps": [list(step) for step in self.steps]}


def against_queries(records: Sequence[AttackRecord]) -> Curve:
    """Return robust accuracy against the number of queries allowed for each input.

    An attack stops at its success, so a smaller budget would have cut off exactly the successes that took more.
    """
    return _falling(records, lambda record: record.queries)


def against_words(records: Sequence[AttackRecord]) -> Curve:
    """Return robust accuracy against the share of words that may be changed, among the texts that were found."""
    return _falling(records, lambda record: record.words_changed / max(1, record.num_words))


def _falling(records: Sequence[AttackRecord], effort: Any) -> Curve:
    attacked = [record for record in records if record.outcome != "skipped"]
    costs = sorted(float(effort(record)) for record in attacked if record.outcome == "succeeded")
    last = {cost: len(attacked) - fallen for fallen, cost in enumerate(costs, 1)}  # the last of equal costs stays
    return Curve(
        start=len(attacked),
        total=len(records),
        steps=tuple(last.items()),
        end=max((float(effort(record)) for record in attacked), default=0.0),
    )


def success_by_tries(records: Sequence[AttackRecord]) -> tuple[Share, ...]:
    """Return attack success after 1, 2, ... tries (ASR@k); empty where every attack was run once."""
    attacked = [record for record in records if record.outcome != "skipped"]
    most = max((record.tries for record in attacked), default=1)
    if most == 1:
        return ()
    needed = [record.tries for record in attacked if record.outcome == "succeeded"]
    return tuple(Share(count=sum(n <= k for n in needed), total=len(attacked)) for k in range(1, most + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Clean inputs whose confidence lies within a tenth."""

    low: float
    high: float
    confidence: float
    """Mean confidence of its inputs; not a number without any."""
    right: Share
    """How many of its answers were right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How confidence compares with accuracy on clean inputs."""

    bins: tuple[Bin, ...]
    error: float
    """Expected calibration error: the gap of each bin, weighted by its inputs."""
    total: int
    """Inputs counted."""
    left_out: int
    """Inputs whose confidence was not kept."""

    @classmethod
    def of(cls, records: Sequence[AttackRecord]) -> Reliability | None:
        """Count clean inputs; None where no confidence was kept."""
        known = [
            (record.confidence_before, record.outcome != "skipped")
            for record in records
            if not math.isnan(record.confidence_before)
        ]
        if not known:
            return None
        bins = []
        for place in range(_BINS):
            own = [(sure, right) for sure, right in known if min(int(sure * _BINS), _BINS - 1) == place]
            mean = sum(sure for sure, _ in own) / len(own) if own else math.nan
            right = Share(count=sum(right for _, right in own), total=len(own))
            bins.append(Bin(low=place / _BINS, high=(place + 1) / _BINS, confidence=mean, right=right))
        gaps = [each.right.total * abs(each.right.value - each.confidence) for each in bins if each.right.total]
        return cls(bins=tuple(bins), error=sum(gaps) / len(known), total=len(known), left_out=len(records) - len(known))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        bins = [
            {
                "low": each.low,
                "high": each.high,
                "confidence": None if math.isnan(each.confidence) else each.confidence,
                "right": each.right.to_dict(),
            }
            for each in self.bins
        ]
        return {"bins": bins, "error": self.error, "total": self.total, "left_out": self.left_out}


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCurve:
    """Certified accuracy against the radius."""

    name: str
    """Whose certificates these are."""
    space: str
    """Where the radius is measured: a certificate says nothing outside of it."""
    radii: tuple[float, ...]
    """Radii of the inputs that were certified for their true class, ascending."""
    total: int
    """All inputs, those without a certificate too."""
    audited: int = 0
    """Certificates that were attacked from inside."""
    broken: int = 0
    """Certificates that such an attack broke."""
    robust: Share | None = None
    """Accuracy of the same weights on the same inputs under all attacks, where there are such runs."""

    @classmethod
    def read(cls, path: str | Path, runs: Sequence[Run] = ()) -> CertifiedCurve:
        """Read what `rsmi certify` wrote, and find attacks on the same weights and inputs among `runs`."""
        header, records = read_certificates(path)
        counted = CertifiedAccuracy.of(list(records.values()))
        same = [
            run.survived
            for run in runs
            if run.fingerprint == header["model"]["fingerprint"]
            and run.inputs == (header["data"]["fingerprint"], header["num"])
        ]
        standing = [all(each) for each in zip(*same, strict=True)]
        first = next(iter(records.values())).certificate
        return cls(
            name=f"{header['model']['name']} · {header['certify']['kind']}",
            space=first.space,
            radii=counted.radii,
            total=counted.total,
            audited=counted.audited,
            broken=counted.broken,
            robust=Share(count=sum(standing), total=len(standing)) if same else None,
        )

    @classmethod
    def of(cls, name: str, space: str, certificates: Iterable[Mapping[str, Any]]) -> CertifiedCurve:
        """Count certificates.

        Args:
            name: Whose they are.
            space: Where the radius is measured.
            certificates: For each input its `radius`, and whether it is `certified` for its true class.
        """
        given = list(certificates)
        if not given:
            raise InputError("expected at least one certificate, got none")
        missing = [name for name in ("radius", "certified") if any(name not in each for each in given)]
        if missing:
            raise InputError(f"expected certificates with radius and certified, got one without {missing[0]}")
        radii = sorted(float(each["radius"]) for each in given if each["certified"])
        return cls(name=name, space=space, radii=tuple(radii), total=len(given))

    def at(self, radius: float) -> Share:
        """Return the share of inputs certified at this radius at least."""
        return Share(count=sum(own >= radius for own in self.radii), total=self.total)

    @property
    def curve(self) -> Curve:
        """The same as a falling curve.

        At its own radius a certificate still holds. Whole radii count words: a text falls at the next whole number.
        """
        beyond = 1.0 if all(radius % 1 == 0 for radius in self.radii) else 0.0
        left = {radius + beyond: len(self.radii) - fallen for fallen, radius in enumerate(self.radii, 1)}
        end = self.radii[-1] + beyond if self.radii else 0.0
        return Curve(start=len(self.radii), total=self.total, steps=tuple(left.items()), end=end)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        robust = None if self.robust is None else self.robust.to_dict()
        return asdict(self) | {"radii": list(self.radii), "robust": robust}
