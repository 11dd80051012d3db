"""`rsmi doctor`: versions, devices and resources, and how to get what is missing."""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import typer

from rsmi.app.options import Json

_PACKAGES = ("rsmi", "torch", "transformers", "accelerate", "datasets", "tokenizers", "safetensors", "scikit-learn")
_EXTRAS = {"lora": "peft", "textattack": "textattack", "serve": "fastapi", "cluster": "ray", "report": "matplotlib"}


def doctor(as_json: Json = False) -> None:
    """Show versions, devices and resources; exit with 1 if the embedded default is not complete."""
    report = collect()
    if as_json:
        typer.echo(json.dumps(report))
    else:
        _print(report)
    if not all(entry["present"] for entry in report["resources"]):
        raise typer.Exit(1)


def collect() -> dict[str, Any]:
    """Return what `rsmi doctor` shows."""
    import torch

    from rsmi.data import embedded_status

    folder = os.environ.get("RSMI_DATA")
    return {
        "platform": platform.platform(),
        "versions": versions(),
        "devices": [f"cpu ({torch.get_num_threads()} threads)"]
        + [f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())],
        "resources": [{"name": r.name, "present": r.present, "install": r.install} for r in embedded_status()],
        "extras": [
            {"name": extra, "present": _version(package) is not None, "install": f"pip install 'rsmi[{extra}]'"}
            for extra, package in _EXTRAS.items()
        ],
        "RSMI_DATA": {"folder": folder, "present": folder is not None and os.path.isdir(folder)},
    }


def versions() -> dict[str, str | None]:
    """Return the versions that a result depends on, None for a package that is missing."""
    return {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
