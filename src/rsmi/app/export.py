"""`rsmi export`: a model -> a folder that ONNX Runtime computes its votes with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rsmi.app.options import Json, Variant, parse_settings


def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any classifier checkpoint.")
    ],
    out: Annotated[Path, typer.Option("--out", help="New folder for graphs, weights, tokenizer and settings.")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method, such as first_votes=7; repeatable."),
    ] = None,
    variant: Variant = None,
    as_json: Json = False,
) -> None:
    """Write a model for ONNX Runtime, to be run without torch; needs rsmi[onnx].

    The graphs are deterministic: noise is an input. examples/onnx/predict.py votes with them.
    """
    from rsmi.export import export_onnx
    from rsmi.opening import open_classifier

    classifier = open_classifier(model, variant, parse_settings(settings), device="cpu")
    export_onnx(classifier, out)
    files = {path.name: path.stat().st_size for path in sorted(out.iterdir())}
    if as_json:
        typer.echo(json.dumps({"out": str(out), "files": files}))
    else:
        typer.echo(f"saved {out}: {', '.join(files)} ({sum(files.values()) / 2**20:.1f} MiB)")
