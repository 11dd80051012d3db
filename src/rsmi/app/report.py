"""`rsmi report`: records of runs -> a page, a text, all numbers, or figures for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rsmi.app.exits import check_writable

Out = Annotated[
    list[Path] | None,
    typer.Option("--out", help="File to write: .html (one page, no network), .md or .json; repeatable."),
]
Figures = Annotated[
    Path | None, typer.Option("--figures", help="Folder for the figures as PNG and SVG; needs rsmi[report].")
]


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Files written by rsmi attack or certify.")],
    out: Out = None,
    figures: Figures = None,
    max_examples: Annotated[
        int, typer.Option("--max-examples", min=0, help="Attacked examples of each run that a page holds, the first.")
    ] = 200,
) -> None:
    """Compare runs: tables with intervals, curves, protocols, warnings, and a browser of attacked examples."""
    from rsmi.errors import ConfigError
    from rsmi.evaluation.recordfile import read_header
    from rsmi.evaluation.runs import Run
    from rsmi.report import CertifiedCurve, Report
    from rsmi.report.report import check_ending

    if not out and figures is None:
        raise ConfigError("expected --out report.html (or .md, .json) or --figures FOLDER, got neither")
    for path in out or ():
        check_ending(path)  # before the work
        check_writable(path)
    certificates = [path for path in runs if "certify" in read_header(path)]
    attacks = [Run.read(path) for path in runs if path not in certificates]
    made = Report.from_runs(attacks, [CertifiedCurve.read(path, attacks) for path in certificates])
    for path in out or ():
        made.save(path, max_examples=max_examples)
        typer.echo(path)
    if figures is not None:
        files = made.save_figures(figures)
        typer.echo(f"{figures}: {len(files)} files")
    for warning in made.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if any(own.broken for own in made.certified):
        raise typer.Exit(1)
