"""`rsmi reproduce`: a table or figure of the paper -> everything that it takes, and a page with every claim judged."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsmi.app.attack import Cluster, Workers
from rsmi.app.completion import ITEMS, SCALES, among

if TYPE_CHECKING:
    from rsmi.evaluation.jobs import OpenJob
    from rsmi.experiments.items import Item
    from rsmi.experiments.results import Results
    from rsmi.experiments.running import Progress
    from rsmi.experiments.scale import Scale
    from rsmi.experiments.specs import Step
    from rsmi.records import AttackRecord


def reproduce(
    item: Annotated[
        str,
        typer.Argument(
            metavar="ITEM", help="table1 to table11, figure2 to figure4, or all.", autocompletion=among(ITEMS)
        ),
    ],
    scale: Annotated[
        str,
        typer.Option("--scale", help="small: two cores, hours. paper: GPUs and a hub.", autocompletion=among(SCALES)),
    ] = "small",
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of records and page; by default results/reproduction/SCALE.")
    ] = None,
    models: Annotated[
        Path | None, typer.Option("--models", help="Folder of weights; by default runs/reproduction/SCALE.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what --out holds.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Check names and settings, tell what it would take, stop.")
    ] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Run every step on tiny random models, to see that it would run.")
    ] = False,
    teraflops: Annotated[
        float, typer.Option("--teraflops", min=0.001, help="With --plan: speed of the machine, sustained.")
    ] = 30.0,
    workers: Workers = 1,
    cluster: Cluster = None,
) -> None:
    """Reproduce a table or figure of the paper, or all, and judge its claims.

    Models are trained once, whatever number of tables needs them; an interrupted run goes on with --resume. Started
    several times with --resume, on cores or GPUs of their own, processes share the work.
    """
    from rsmi.errors import ConfigError
    from rsmi.experiments.items import items_of
    from rsmi.experiments.results import Results
    from rsmi.experiments.scales import SCALES
    from rsmi.settings import nearest

    if scale not in SCALES:
        raise ConfigError(f"--scale: expected one of {', '.join(SCALES)}; got {scale!r}{nearest(scale, SCALES)}")
    chosen, items = SCALES[scale], items_of(item)
    if plan:
        _plan(items, chosen, teraflops)
        return
    if smoke:
        with tempfile.TemporaryDirectory(prefix="rsmi-smoke-") as folder:
            _run(items, _smoke(chosen, Path(folder)), Path(folder) / "models", 1, None)
            typer.echo(f"every step of {item} runs at scale {scale}; the figures above mean nothing")
        return
    results = Results(chosen, out or Path("results/reproduction") / scale)
    if (results.folder / "scale.json").exists() and not resume:
        raise ConfigError(
            f"{results.folder}: holds results already; pass --resume to go on with them, or another --out"
        )
    _run(items, results, models or Path("runs/reproduction") / scale, workers, cluster)


def _smoke(scale: Scale, folder: Path) -> Results:
    from rsmi.experiments.results import Results
    from rsmi.experiments.scales import smoke
    from rsmi.experiments.tiny import write_data, write_models

    bases = write_models(folder / "bases", tuple(scale.encoders))
    return Results(smoke(scale, bases, write_data(folder / "data")), folder / "results")


def _run(items: Sequence[Item], results: Results, models: Path, workers: int, cluster: str | None) -> None:
    from rsmi.experiments.items import items_of
    from rsmi.experiments.page import judged_items, write_page
    from rsmi.experiments.running import reproduce as run

    try:
        run(items, results, models, workers=workers, cluster=cluster, tell=_tell, show=_show)
    except KeyboardInterrupt:
        typer.echo(f"\ninterrupted; what is done is in {results.folder}; --resume goes on from there", err=True)
        raise typer.Exit(130) from None
    judged = judged_items(items_of("all"), results)
    page = write_page(items_of("all"), results, judged)
    for own in items:
        for verdict in judged[own.name]:
            typer.echo(f"{verdict.status:15} {own.name}: {verdict.claim}")
            for part in verdict.evidence:
                typer.echo(f"{'':15} {part}")
    typer.echo(f"page: {page}")


def _tell(progress: Progress) -> None:
    from rsmi.app.doctor import duration

    left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
    typer.echo(f"[{progress.number}/{progress.total}{left}] {_named(progress.step)}", err=True)


def _named(step: Step) -> str:
    from rsmi.experiments.specs import Attacked, Trained

    if isinstance(step, Trained):
        return f"train {step.name}"
    return f"attack {step.name}" if isinstance(step, Attacked) else f"measure {step.name}"


def _show(opened: OpenJob, file: Path, records: Iterator[AttackRecord]) -> Iterable[AttackRecord]:
    from rsmi.app.attack import shown

    return shown(records, len(opened.sample), file)


def _plan(items: Sequence[Item], scale: Scale, teraflops: float) -> None:
    """Print the steps by kind with what they cost, after building every setting that they need."""
    from rsmi.app.doctor import duration
    from rsmi.attacks.catalogue import ATTACKS
    from rsmi.errors import ConfigError
    from rsmi.experiments.costs import cost_of
    from rsmi.experiments.running import steps_of
    from rsmi.experiments.specs import Attacked, Trained

    steps = steps_of(items, scale)
    for step in steps:
        if isinstance(step, Trained):
            scale.preset(step)
        elif isinstance(step, Attacked):
            scale.job(step, Path(step.model.name))
            if step.attack not in ATTACKS:
                raise ConfigError(f"{step.name}: expected an attack of {', '.join(ATTACKS)}, got {step.attack}")
    costs: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for step in steps:
        kind = _named(step).split()[0]
        counts[kind] += 1
        costs[kind] += int(cost_of(step, scale))
    for encoder in scale.encoders.values():
        typer.echo(f"encoder     {encoder.base} ({encoder.label})")
    typer.echo(f"inputs      {scale.num} attacked, {scale.told_texts()}")
    for kind, count in counts.items():
        hours = duration(costs[kind] / (teraflops * 1e12))
        typer.echo(f"{kind:11} {count} steps, {costs[kind] / 1e15:,.1f} PFLOP, {hours} at {teraflops:g} TFLOP/s")
    total = sum(costs.values())
    typer.echo(f"all         {len(steps)} steps, {total / 1e15:,.1f} PFLOP, {duration(total / (teraflops * 1e12))}")
    typer.echo("counted with the paper's own numbers of queries; candidates and constraints of the attacks come on top")
