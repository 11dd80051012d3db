"""`rsmi doctor`: versions, devices and resources, how to get what is missing, and what a run would take."""

from __future__ import annotations

import json
import os
import platform
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.attack import Draws, ProtocolName, Split, Tries
from rsmi.app.completion import ATTACKS, among
from rsmi.app.options import Backend, Device, Dtype, Json, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.evaluation.jobs import Job
    from rsmi.evaluation.planning import Plan

_EXTRAS = {"lora": "peft", "textattack": "textattack", "serve": "fastapi", "cluster": "ray", "report": "matplotlib"}


def doctor(
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help="With --plan: the model of the run.")] = None,
    data: Annotated[str | None, typer.Argument(metavar="[DATA]", help="With --plan: its texts.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Tell what a run on MODEL and DATA would take.")] = False,
    attack: Annotated[
        str | None,
        typer.Option("--attack", help="Plan this attack; else plan predictions.", autocompletion=among(ATTACKS)),
    ] = None,
    num: Annotated[int, typer.Option("--num", min=1, help="Texts of the planned run.")] = 1000,
    calibrate: Annotated[
        int | None,
        typer.Option("--calibrate", min=1, help="Texts to run now, to find out; 32 of an attack, 256 of predictions."),
    ] = None,
    split: Split = "test",
    protocol: ProtocolName = "paper",
    draws: Draws = 20,
    tries: Tries = 5,
    variant: Variant = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Show versions, devices and resources; exit with 1 if the embedded default is not complete.

    With --plan, run a few texts and tell how long the whole run would take, and how much memory.
    """
    if plan:
        if model is None or data is None:
            raise typer.BadParameter("--plan: expected MODEL and DATA, as in rsmi doctor --plan runs/mine data.csv")
        from rsmi.evaluation.jobs import Job

        job = Job(
            model=model,
            data=data,
            attack=attack or "textfooler",
            protocol=protocol,
            draws=draws,
            tries=tries,
            split=split,
            num=num,
            variant=variant,
            device=device,
            dtype=dtype,
            backend=backend,
            token_budget=token_budget,
        )
        _show_plan(_plan(job, attack is not None, calibrate or (256 if attack is None else 32)), as_json)
        return
    if model is not None:
        raise typer.BadParameter(f"{model}: expected no model without --plan")
    report = collect()
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _print(report)
    if not all(entry["present"] for entry in report["resources"]):
        raise typer.Exit(1)


def _plan(job: Job, attacked: bool, calibrate: int) -> Plan:
    """Plan a job as `rsmi attack` runs it, or the classifying of its texts."""
    from rsmi.evaluation.planning import plan_attack, plan_predictions

    what = f"{job.attack}, protocol {job.protocol}" if attacked else "predictions"
    if attacked:
        opened = job.open()
        _announce(what, calibrate, len(opened.sample), opened.sample.source)
        return plan_attack(opened.run, opened.sample, calibrate)
    rows = job.load(job.split)
    sample = rows.take(min(job.num, len(rows)), job.sample_seed)
    _announce(what, calibrate, len(sample), rows.source)
    return plan_predictions(job.classifier().predict, sample, calibrate)


def _announce(what: str, calibrate: int, total: int, source: str) -> None:
    typer.echo(f"{what}: {min(calibrate, total)} of {total} texts ({source}) run now", err=True)


def _show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(plan.to_dict()))
        return
    typer.echo(f"texts       {plan.inputs} ({plan.calibrated} run now, in {duration(plan.calibration_seconds)})")
    typer.echo(f"time        {duration(plan.seconds)}  [{duration(plan.low)} to {duration(plan.high)}]")
    if plan.queries is not None:
        typer.echo(f"queries     {plan.queries:.0f}")
    if plan.peak_mib is not None:
        typer.echo(f"memory      {plan.peak_mib:.0f} MiB, whatever the number of texts")


def duration(seconds: float) -> str:
    """Return seconds as a person would say them."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def collect() -> dict[str, Any]:
    """Return what `rsmi doctor` shows."""
    import torch

    from rsmi.data import embedded_status
    from rsmi.evaluation.running import version_of, versions

    folder = os.environ.get("RSMI_DATA")
    return {
        "platform": platform.platform(),
        "versions": versions(),
        "devices": [f"cpu ({torch.get_num_threads()} threads)"]
        + [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())],
        "resources": [{"name": r.name, "present": r.present, "install": r.install} for r in embedded_status()],
        "extras": [
            {"name": extra, "present": version_of(package) is not None, "install": f"pip install 'rsmi[{extra}]'"}
            for extra, package in _EXTRAS.items()
        ],
        "RSMI_DATA": {"folder": folder, "present": folder is not None and os.path.isdir(folder)},
    }


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, installed in report["versions"].items():
        table.add_row(name, installed or "[red]missing[/red]")
    table.add_row("devices", ", ".join(report["devices"]))
    for kind in ("resources", "extras"):
        for entry in report[kind]:
            missing = "[red]missing[/red]" if kind == "resources" else "not installed"
            how = escape(entry["install"])
            state = "[green]present[/green]" if entry["present"] else f"{missing}: {how}"
            table.add_row(entry["name"] if kind == "resources" else f"extra {entry['name']}", state)
    folder = report["RSMI_DATA"]["folder"]
    if folder is None:
        state = "not set (optional: a folder of benchmark data)"
    else:
        state = escape(folder) if report["RSMI_DATA"]["present"] else f"[red]{escape(folder)} is no folder[/red]"
    table.add_row("RSMI_DATA", state)
    console.print(table)
