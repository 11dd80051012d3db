"""`rsmi gate`: an attack and thresholds -> an exit code, for pipelines that release models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rsmi.app.attack import AttackOptions, DataName, numbers, run_to_end, show_result
from rsmi.app.exits import check_writable
from rsmi.app.foreign import ForeignOptions, TargetName
from rsmi.app.grouped import grouped
from rsmi.app.options import Json, check_free

if TYPE_CHECKING:
    from rsmi.evaluation.gating import Check

FAILED: Final = 3
"""Exit code when a threshold does not hold; 1 stays for errors, 2 for a wrong use of the command."""
_NAMES: Final = {
    "min_robust_accuracy": "accuracy under attack",
    "min_accuracy": "accuracy before the attack",
    "max_success_rate": "attack success",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdOptions:
    """What the model must reach."""

    min_robust_accuracy: Annotated[
        float | None,
        typer.Option("--min-robust-accuracy", min=0, max=1, help="Least accuracy under attack, from 0 to 1."),
    ] = None
    min_accuracy: Annotated[
        float | None, typer.Option("--min-accuracy", min=0, max=1, help="Least accuracy before the attack.")
    ] = None
    max_success_rate: Annotated[
        float | None,
        typer.Option("--max-success-rate", min=0, max=1, help="Most successes among the texts answered right."),
    ] = None
    sure: Annotated[
        bool, typer.Option("--sure", help="Compare the cautious end of the 95 % interval, not the number itself.")
    ] = False


@grouped
def gate(
    model: TargetName,
    data: DataName,
    wanted: ThresholdOptions,
    report: Annotated[
        Path | None, typer.Option("--report", help="Write a report: .html (one page, no network), .md or .json.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSONL file of the records; without it they are not kept.")
    ] = None,
    *,
    how: AttackOptions,
    foreign: ForeignOptions,
    as_json: Json = False,
) -> None:
    """Attack a model, and exit with 3 unless it reaches the thresholds.

    The attack is that of rsmi attack. By default the measured number is compared with the threshold, with --sure the
    end of its 95 % Wilson interval on the cautious side: the lower end with a minimum, the upper end with a maximum.
    Exit codes: 0 all thresholds hold, 1 an error, 2 a wrong use of the command, 3 a threshold does not hold.
    """
    from rsmi.evaluation.gating import Thresholds
    from rsmi.report.report import check_ending

    given = {name: getattr(wanted, name) for name in _NAMES if getattr(wanted, name) is not None}
    if not given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in _NAMES)
        raise typer.BadParameter(f"expected at least one threshold ({options}), got none")
    if how.resume and out is None:
        raise typer.BadParameter("--resume: expected --out FILE, the records to go on with; got none")
    if report is not None:
        check_ending(report)  # before the work
        check_writable(report)
    if out is not None:
        check_free(out, how.resume)
    thresholds = Thresholds(**given, sure=wanted.sure)
    opened = how.job(model, data, foreign).open()
    with _file(out) as file:
        result = run_to_end(opened, file, how.workers, how.cluster, kept=out is not None)
        if report is not None:
            _write_report(file, report, out is not None)
    checks = thresholds.judge(result)
    passed = all(check.passed for check in checks)
    if as_json:
        told = {"passed": passed, "sure": wanted.sure, "thresholds": [check.to_dict() for check in checks]}
        files = {"out": None if out is None else str(out), "report": None if report is None else str(report)}
        typer.echo(json.dumps({**told, **files, **numbers(opened, result)}))
    else:
        show_result(result, opened.classifier.randomised)
        _show(checks, passed, len(opened.sample))
    if len(opened.sample) < how.num:
        typer.echo(f"warning: only {len(opened.sample)} texts in {data}, of {how.num} asked for", err=True)
    if not passed:
        raise typer.Exit(FAILED)


@contextmanager
def _file(out: Path | None) -> Iterator[Path]:
    """Give the file of the records, which is gone afterwards where none was asked for."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "records.jsonl"


def _write_report(records: Path, report: Path, kept: bool) -> None:
    from rsmi.evaluation.runs import Run
    from rsmi.report import Report

    run = Run.read(records)
    made = Report.from_runs([run if kept else replace(run, source="records that were not kept")])
    made.save(report)
    for warning in made.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _show(checks: Sequence[Check], passed: bool, num: int) -> None:
    for check in checks:
        low, high = check.share.interval
        sign = ">=" if check.at_least else "<="
        end = ("lower" if check.at_least else "upper") + " end of the interval"
        shown = f"{100 * check.compared:.1f} %" if check.compared == check.compared else "nothing was counted"
        typer.echo(
            f"{'passed' if check.passed else 'FAILED'}  {_NAMES[check.threshold]}: {shown} {sign} "
            f"{100 * check.limit:g} %  ({end if check.sure else 'measured'}; 95 % interval "
            f"[{100 * low:.1f}, {100 * high:.1f}], n = {check.share.total})"
        )
    held = sum(check.passed for check in checks)
    typer.echo(f"gate {'passed' if passed else 'FAILED'}: {held} of {len(checks)} thresholds hold on {num} texts")
