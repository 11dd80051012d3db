"""Runs -> a report: all its numbers, and the file they are saved to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rsmi.errors import DataError, InputError
from rsmi.evaluation.robustness import Share
from rsmi.evaluation.runs import Run, cautions
from rsmi.records import AttackRecord
from rsmi.report.curves import CertifiedCurve
from rsmi.report.naming import check_distinct, name_models, short_names
from rsmi.report.numbers import WORST, plain, unique
from rsmi.report.sample import Sample, doubts, split_samples
from rsmi.writing import write_text

ENDINGS = (".html", ".md", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The numbers of one or several runs, ready to be read."""

    samples: tuple[Sample, ...]
    """Numbers of the runs on each sample of inputs."""
    warnings: tuple[str, ...]
    """What a reader must know before he believes a number."""
    runs: tuple[Run, ...]
    """The runs, models that share a name told apart."""
    certified: tuple[CertifiedCurve, ...] = ()
    """Certified accuracy, where there are certificates."""

    @classmethod
    def from_runs(cls, runs: Sequence[Run], certified: Sequence[CertifiedCurve] = ()) -> Report:
        """Count runs.

        Args:
            runs: Finished runs, of one or several models, attacks, protocols and samples.
            certified: Certified accuracy to show beside them.

        Raises:
            DataError: If there is nothing to show, a run without records, or one run twice.
        """
        if not runs and not certified:
            raise DataError("expected at least one run, got none")
        empty = [run.source for run in runs if not run.records]
        if empty:
            raise DataError(f"{empty[0]}: expected records, got none; attack at least one text")
        check_distinct(runs)
        short = short_names([*(run.model for run in runs), *(curve.name for curve in certified)])
        certified = [replace(curve, name=short[curve.name]) for curve in certified]
        named = name_models([run.called(short[run.model]) for run in runs])
        samples = split_samples(named)
        return cls(
            samples=samples,
            warnings=tuple(unique(_false_certificates(certified) + cautions(named) + doubts(named, samples))),
            runs=tuple(named),
            certified=tuple(certified),
        )

    @classmethod
    def from_records(cls, records: Sequence[AttackRecord], *, model: str = "model", data: str = "data") -> Report:
        """Count records that were never written to a file: one model, one sample, one run for each attack."""
        runs = []
        for attack in unique(record.attack for record in records):
            own = tuple(record for record in records if record.attack == attack)
            inputs = json.dumps([[record.original, str(record.label)] for record in own]).encode()
            header = {
                "attack": {"name": attack},
                "data": {"name": data, "fingerprint": hashlib.sha256(inputs).hexdigest()[:32]},
                "num": len(own),
                "randomised": any(record.fresh_draws for record in own),
                "model": {"name": model},
            }
            runs.append(Run("records", header, own))
        return cls.from_runs(runs)

    @property
    def robust_accuracy(self) -> Share:
        """What survived every attack, where the report is about one model on one sample.

        Raises:
            InputError: If it is about several; see `samples`.
        """
        worst = [each.joint for sample in self.samples for each in sample.protocols if each.protocol == WORST]
        if len(worst) != 1:
            raise InputError(f"expected a report about one model on one sample, got {len(worst)}; see report.samples")
        return worst[0]

    def to_dict(self) -> dict[str, Any]:
        """Return every number, plain and ready for JSON."""
        return {
            "warnings": list(self.warnings),
            "samples": [sample.to_dict() for sample in self.samples],
            "certified": [curve.to_dict() for curve in self.certified],
            "runs": [{"source": run.source, **plain(run.header)} for run in self.runs],
        }

    def save(self, path: str | Path, *, max_examples: int | None = None) -> None:
        """Write a page (.html), a text (.md) or all numbers (.json), as the ending says.

        Args:
            path: The file; folders on its way are made.
            max_examples: Attacked examples of each run that a page holds, the first ones; by default all.

        Raises:
            InputError: If the ending is another one.
        """
        path = Path(path)
        ending = check_ending(path)
        if ending == ".html":
            from rsmi.report.html import html_page

            text = html_page(self, max_examples)
        elif ending == ".md":
            from rsmi.report.markdown import markdown_page

            text = markdown_page(self)
        else:
            text = json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)

    def save_figures(self, folder: str | Path) -> list[Path]:
        """Write every figure as PNG and SVG, for papers; returns the files.

        Raises:
            MissingResourceError: If matplotlib is not installed.
        """
        from rsmi.report.figures import write_figures

        return write_figures(self, Path(folder))


def check_ending(path: Path) -> str:
    """Return the ending of a report's file, in lower case."""
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path}: expected a file ending in {', '.join(ENDINGS)}, got {ending or 'no ending'!r}")
    return ending


def _false_certificates(curves: Sequence[CertifiedCurve]) -> list[str]:
    return [
        f"FALSE CERTIFICATES: {own.broken} of {own.audited} certificates of {own.name} that were attacked from inside "
        "are broken; none of them can be trusted"
        for own in curves
        if own.broken
    ]
