"""`rsmi predict`: texts -> decisions, with the votes and masks behind them if asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsmi.app.options import Backend, Device, Dtype, Json, PairColumn, Seed, TextColumn, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.records import TextInput

_BRIEF = ("text", "label", "probabilities", "escalated", "truncated", "copies")


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any classifier checkpoint.")
    ],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify.", metavar="TEXT")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="CSV, TSV, JSONL or Parquet file of texts.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show salient and masked tokens and the votes.")] = False,
    variant: Variant = None,
    seed: Seed = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    device: Device = None,
    dtype: Dtype = "float32",
    backend: Backend = "torch",
    token_budget: TokenBudget = None,
    as_json: Json = False,
) -> None:
    """Classify texts, given one by one or in a file; results come in the order of the texts, as they are ready."""
    from rsmi.app.loading import open_model
    from rsmi.app.show import print_explanation, print_line
    from rsmi.data import iter_texts

    if bool(texts) == (file is not None):
        raise typer.BadParameter("expected texts or --file, and not both", param_hint="TEXT")
    pending: Iterable[TextInput] = iter_texts(file, text_column, pair_column) if file is not None else (texts or [])
    bar = None if file is None else True
    classifier = open_model(model, variant, seed, device, dtype, backend, token_budget, progress=bar)
    for prediction in classifier.explain_iter(pending):
        if as_json:
            values = prediction.to_dict()
            typer.echo(json.dumps(values if explain else {name: values[name] for name in _BRIEF}, ensure_ascii=False))
        elif explain:
            print_explanation(prediction)
        else:
            print_line(prediction)
