"""A model and labelled texts -> certificates in a JSONL file -> certified accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rsmi.certify import Certificate, CertifyConfig, open_smoothing
from rsmi.classifier import RsmiClassifier
from rsmi.data import TextDataset
from rsmi.errors import DataError
from rsmi.evaluation.recordfile import FORMAT, check_complete, read_records, records_to_file
from rsmi.evaluation.robustness import Share
from rsmi.records import Label, TextInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One attempt to break a certificate from inside."""

    attack: str
    """How."""
    adversarial: TextInput | None
    """The text found; None where a state was moved that belongs to no text."""
    distance: float
    """How far it is from the certified text, in the certificate's space."""
    counts: list[tuple[Label, int]]
    """Fresh votes about it."""
    broken: bool
    """Whether another class has more votes than the certified one, beyond chance: the certificate is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """A certificate and what is true."""

    gold: Label
    """The true class."""
    certificate: Certificate
    audits: tuple[Audit, ...] = ()
    """Attempts to break it."""

    @property
    def correct(self) -> bool:
        """Whether it certifies the true class."""
        return self.certificate.label == self.gold

    def audited(self, more: Sequence[Audit]) -> Certified:
        """Return it with further attempts."""
        return replace(self, audits=(*self.audits, *more))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Certified:
        """Read what `to_dict` wrote."""
        own = dict(values)
        gold, audits = own.pop("gold"), own.pop("audits")
        found = []
        for each in audits:
            text = tuple(each["adversarial"]) if isinstance(each["adversarial"], list) else each["adversarial"]
            counts = [(label, count) for label, count in each["counts"]]
            found.append(Audit(**{**each, "adversarial": text, "counts": counts}))
        return cls(gold=gold, certificate=Certificate.from_dict(own), audits=tuple(found))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        audits = [asdict(each) for each in self.audits]
        return {"gold": self.gold, **self.certificate.to_dict(), "audits": audits}


def describe_certificates(
    classifier: RsmiClassifier, data: TextDataset, settings: CertifyConfig, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that the certificates of a run depend on: the first line of its file."""
    return {
        "format": FORMAT,
        "certify": settings.to_dict(),
        "data": {"name": data.name, "split": data.split, "source": data.source, "fingerprint": data.fingerprint},
        "num": len(data),
        "seed": classifier.seed,
        **more,
    }


def certify_to_file(
    classifier: RsmiClassifier,
    data: TextDataset,
    out: str | Path,
    settings: CertifyConfig,
    about: Mapping[str, Any] | None = None,
) -> Iterator[Certified]:
    """Certify every text of `data`, append each certificate to `out` as it is made and yield it.

    With a seed, an interrupted run that goes on ends with the same file as an uninterrupted one.
    """

    def run(left: Sequence[int]) -> Iterator[tuple[int, Certified]]:
        texts = [data.texts[place] for place in left]
        made = classifier.certify_iter(texts, **settings.to_dict())
        for place, certificate in zip(left, made, strict=True):
            yield place, Certified(gold=data.labels[place], certificate=certificate)

    open_smoothing(classifier.engine(), settings)  # says so before a file is begun
    header = describe_certificates(classifier, data, settings, about or {})
    yield from records_to_file(header, len(data), out, run, Certified.from_dict)


def read_certificates(path: str | Path) -> tuple[dict[str, Any], dict[int, Certified]]:
    """Return the description of a finished run of `rsmi certify` and its records by their place.

    Raises:
        DataError: If it is another kind of file, a line cannot be read, or records are missing.
    """
    header, records = read_records(path, Certified.from_dict)
    if "certify" not in header:
        raise DataError(f"{path}: expected certificates as rsmi certify writes them, got records of another kind")
    check_complete(path, int(header["num"]), records, "rsmi certify")
    return header, records


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedAccuracy:
    """How many texts are certified for their true class, and how far."""

    radii: tuple[float, ...]
    """Of the texts certified for their true class, ascending."""
    abstained: int
    wrong: int
    """Certified for another class than the true one."""
    total: int
    audited: int
    """Certificates that were attacked from inside."""
    broken: int
    """Certificates that such an attack broke: they are false."""

    @classmethod
    def of(cls, records: Sequence[Certified]) -> CertifiedAccuracy:
        """Count certificates."""
        return cls(
            radii=tuple(sorted(own.certificate.radius for own in records if own.correct)),
            abstained=sum(own.certificate.abstained for own in records),
            wrong=sum(not own.certificate.abstained and not own.correct for own in records),
            total=len(records),
            audited=sum(bool(own.audits) for own in records),
            broken=sum(any(each.broken for each in own.audits) for own in records),
        )

    def at(self, radius: float) -> Share:
        """Return the share of texts certified for their true class at this radius at least."""
        return Share(count=sum(own >= radius for own in self.radii), total=self.total)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**asdict(self), "radii": list(self.radii), "certified": self.at(0.0).to_dict()}
