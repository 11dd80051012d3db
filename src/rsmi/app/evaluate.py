"""`rsmi evaluate`: a model and labelled texts -> standard accuracy with its interval."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

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


def evaluate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any classifier checkpoint.")
    ],
    data: Annotated[str, typer.Argument(metavar="DATA", help="mr, imdb, a CSV/TSV/JSONL/Parquet file, or a hub id.")],
    split: Annotated[str, typer.Option("--split", help="train, dev or test; a file is all test.")] = "test",
    num: Annotated[int | None, typer.Option("--num", min=1, help="Classify a random sample of this many.")] = None,
    sample_seed: Annotated[int, typer.Option("--sample-seed", help="Seed of the sample.")] = 0,
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
    """Measure standard accuracy (SAcc) with a 95 % Wilson interval."""
    from rsmi.app.loading import open_model
    from rsmi.data import load_data
    from rsmi.evaluation.accuracy import measure_accuracy

    rows = load_data(data, split, text_column=text_column, pair_column=pair_column, label_column=label_column)
    if num is not None:
        rows = rows.take(min(num, len(rows)), sample_seed)
    classifier = open_model(model, variant, seed, device, dtype, backend, token_budget, progress=True)
    accuracy = measure_accuracy(classifier, rows.texts, rows.labels)
    if as_json:
        about: dict[str, Any] = {"model": model, "data": rows.name, "split": rows.split, "source": rows.source}
        about |= {"fingerprint": rows.fingerprint, "seed": seed, "config": classifier.config_.to_dict()}
        typer.echo(json.dumps({**accuracy.to_dict(), **about}, ensure_ascii=False))
    else:
        abstained = f", {accuracy.abstained} abstained" if accuracy.abstained else ""
        typer.echo(
            f"SAcc {accuracy.value:.1%}  95 % interval [{accuracy.low:.1%}, {accuracy.high:.1%}]  "
            f"n = {accuracy.total}{abstained}  {rows.name} {rows.split}  seed {seed}"
        )
