"""`rsmi evaluate`: models and labelled texts -> standard accuracy, or a whole suite of attacks, with intervals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.attack import Cluster, DataName, MaxQueries, Stratified, Workers
from rsmi.app.completion import SPLITS, SUITES, among
from rsmi.app.exits import check_writable
from rsmi.app.options import (
    Backend,
    Device,
    Dtype,
    Json,
    LabelColumn,
    PairColumn,
    Seed,
    TextColumn,
    TokenBudget,
    Variant,
)

if TYPE_CHECKING:
    from rsmi.evaluation.jobs import Job
    from rsmi.report import Report

_ATTACKED = 100  # texts of a suite


def evaluate(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL...", help="Folders written by rsmi train, or any classifiers.")
    ],
    data: DataName,
    suite: Annotated[
        str | None,
        typer.Option(
            "--suite", help="Attack the models, too: standard or full; needs --out.", autocompletion=among(SUITES)
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="With --suite: folder of records and report.")] = None,
    split: Annotated[
        str, typer.Option("--split", help="train, dev or test; a file is all test.", autocompletion=among(SPLITS))
    ] = "test",
    num: Annotated[
        int | None, typer.Option("--num", min=1, help="Take a random sample of this many; a suite: 100.")
    ] = None,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of the sample.")] = 0,
    stratified: Stratified = False,
    max_queries: MaxQueries = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    variant: Variant = None,
    seed: Seed = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Measure standard accuracy (SAcc) with a 95 % Wilson interval; with --suite, accuracy under attacks, too.

    A suite runs every attack and protocol that says something about a model, one file of records each, and goes on
    where it was interrupted. It ends in tables, warnings and a report to look at.
    """
    from rsmi.errors import ConfigError
    from rsmi.evaluation.jobs import Job

    columns = {"text_column": text_column, "pair_column": pair_column, "label_column": label_column}
    job = Job(
        model="",
        data=data,
        split=split,
        columns=columns,
        num=num or _ATTACKED,
        sample_seed=sample_seed,
        stratified=stratified,
        attack_settings={"max_queries": max_queries},
        variant=variant,
        seed=seed or 0,
        device=device,
        dtype=dtype,
        backend=backend,
        token_budget=token_budget,
    )
    if suite is None:
        for model in models:
            _accuracy(replace(job, model=model), num, seed, as_json)
        return
    if out is None:
        raise ConfigError(f"--suite {suite}: expected --out FOLDER for the records, got none")
    _suite([replace(job, model=model) for model in models], suite, out, workers, cluster, as_json)


def _accuracy(job: Job, num: int | None, seed: int | None, as_json: bool) -> None:
    """Measure accuracy without an attack."""
    from rsmi.evaluation.accuracy import measure_accuracy

    rows = job.load(job.split)
    if num is not None:
        rows = rows.take(min(num, len(rows)), job.sample_seed, job.stratified)
    classifier = job.classifier()
    classifier.seed, classifier.progress = seed, True
    accuracy = measure_accuracy(classifier, rows.texts, rows.labels)
    if as_json:
        about: dict[str, Any] = {"model": job.model, "data": rows.name, "split": rows.split, "source": rows.source}
        about |= {"fingerprint": rows.fingerprint, "seed": seed, "config": classifier.config_.to_dict()}
        typer.echo(json.dumps({**accuracy.to_dict(), **about}, ensure_ascii=False))
    else:
        abstained = f", {accuracy.abstained} abstained" if accuracy.abstained else ""
        typer.echo(
            f"SAcc {accuracy.value:.1%}  95 % interval [{accuracy.low:.1%}, {accuracy.high:.1%}]  "
            f"n = {accuracy.total}{abstained}  {rows.name} {rows.split}  seed {seed}"
        )


def _suite(jobs: Sequence[Job], suite: str, out: Path, workers: int, cluster: str | None, as_json: bool) -> None:
    """Run a suite for every model, then tell what came of it."""
    from rsmi.app.attack import run_shown
    from rsmi.evaluation.runs import Run
    from rsmi.evaluation.suite import file_name, jobs_of
    from rsmi.report import Report

    files: list[Path] = []
    for model, job in zip(_folders([job.model for job in jobs]), jobs, strict=True):
        classifier = job.classifier()  # all jobs of a suite are about the same one
        planned = jobs_of(suite, job, classifier)
        check_writable(out / "report.html")
        for number, own in enumerate(planned, 1):
            file = out / model / file_name(own)
            files.append(file)
            typer.echo(f"{model} {number}/{len(planned)}: {file}", err=True)
            try:
                for _ in run_shown(own.open(classifier), file, workers, cluster):
                    pass
            except KeyboardInterrupt:
                typer.echo(f"\ninterrupted; all records are in {out}; the same command goes on from there", err=True)
                raise typer.Exit(130) from None
    report = Report.from_runs([Run.read(file) for file in files])
    pages = [out / f"report{ending}" for ending in (".html", ".md", ".json")]
    for page in pages:
        report.save(page)
    if as_json:
        typer.echo(json.dumps(report.to_dict()))
    else:
        typer.echo(_tables(report))
        typer.echo(f"report: {pages[0]}")
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _tables(report: Report) -> str:
    """Return the tables that answer who held up and how sure that is."""
    from rsmi.report import wording
    from rsmi.report.markdown import markdown_table

    lines: list[str] = []
    for sample in report.samples:
        for table in (wording.headline(sample), wording.protocol_table(sample), wording.comparison_table(sample)):
            if table:
                lines += [f"{table.caption}.", "", *markdown_table(table), ""]
    return "\n".join(lines)


def _folders(models: Sequence[str]) -> list[str]:
    """Return a folder name for each model; those that would be equal are numbered."""
    names = [Path(model).name or "model" for model in models]
    return [
        name if names.count(name) == 1 else f"{name}-{names[: place + 1].count(name)}"
        for place, name in enumerate(names)
    ]
