"""`rsmi predict`: texts -> decisions, with the votes and masks behind them if asked."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsmi.app.attack import Cluster, Workers
from rsmi.app.options import Backend, Device, Dtype, Json, PairColumn, Seed, TextColumn, TokenBudget, Variant

if TYPE_CHECKING:
    from rsmi.classifier import RsmiClassifier
    from rsmi.records import TextInput

_BRIEF = ("text", "label", "probabilities", "escalated", "truncated", "copies")


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Folder written by rsmi train, or any classifier checkpoint.")
    ],
    texts: Annotated[list[str] | None, typer.Argument(help="Texts to classify.", metavar="TEXT")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="CSV, TSV, JSONL or Parquet file of texts.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show salient and masked tokens and the votes.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="With --file: write all columns and the predictions to a .csv, .jsonl or .parquet."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="With --out: go on with a run that was interrupted.")
    ] = False,
    on_error: Annotated[
        str, typer.Option("--on-error", help="With --out: stop at rows without a text, or skip them and say why.")
    ] = "stop",
    prefix: Annotated[str, typer.Option("--prefix", help="With --out: put before the names of added columns.")] = "",
    chunk_rows: Annotated[int, typer.Option("--chunk-rows", min=1, help="With --out: rows kept together.")] = 1024,
    workers: Workers = 1,
    cluster: Cluster = None,
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
    """Classify texts, given one by one or in a file; results come in the order of the texts, as they are ready.

    With --file and --out a file of any size becomes one with its predictions, chunk by chunk, in memory that does not
    grow; --resume goes on after an interruption, --workers or --cluster share the chunks.
    """
    from rsmi.data import iter_texts
    from rsmi.opening import open_classifier

    if bool(texts) == (file is not None):
        raise typer.BadParameter("expected texts or --file, and not both", param_hint="TEXT")
    if out is not None:
        if file is None or explain:
            raise typer.BadParameter("expected --file beside it, and no --explain", param_hint="--out")
        classifier = open_classifier(
            model,
            variant,
            seed=seed,
            device=device,
            dtype=dtype,
            backend=backend,
            token_budget=token_budget,
            progress=True,
        )
        choices = {"on_error": on_error, "prefix": prefix, "chunk_rows": chunk_rows, "resume": resume}
        choices |= {"text_column": text_column, "pair_column": pair_column, "workers": workers, "cluster": cluster}
        _score(classifier, file, out, choices, as_json)
        return
    if resume or on_error != "stop" or prefix or workers > 1 or cluster is not None:
        raise typer.BadParameter(
            "expected beside --resume, --on-error, --prefix, --workers, --cluster", param_hint="--out"
        )
    if file is None and (text_column or pair_column):
        raise typer.BadParameter("expected beside --text-column, --pair-column", param_hint="--file")
    pending: Iterable[TextInput] = iter_texts(file, text_column, pair_column) if file is not None else (texts or [])
    bar = None if file is None else True
    classifier = open_classifier(
        model, variant, seed=seed, device=device, dtype=dtype, backend=backend, token_budget=token_budget, progress=bar
    )
    _show(classifier, pending, explain, as_json)


def _score(classifier: RsmiClassifier, file: Path, out: Path, choices: dict[str, Any], as_json: bool) -> None:
    """Score a file and say what became of it."""
    from rsmi.scoring import score_file
    from rsmi.scoring.parts import Parts

    try:
        scored = score_file(classifier, file, out, **choices)
    except KeyboardInterrupt:
        kept = f"; the chunks done are in {Parts(out).folder}, --resume goes on" if Parts(out).folder.exists() else ""
        typer.echo(f"\ninterrupted{kept}", err=True)
        raise typer.Exit(130) from None
    if as_json:
        typer.echo(json.dumps(scored.to_dict()))
        return
    resumed = f", {scored.resumed} of them before the interruption" if scored.resumed else ""
    skipped = f"; {scored.skipped} have no prediction, see the column error" if scored.skipped else ""
    typer.echo(f"saved {out}: {scored.rows} rows{resumed}{skipped}")


def _show(classifier: RsmiClassifier, pending: Iterable[TextInput], explain: bool, as_json: bool) -> None:
    """Print predictions as they are ready."""
    from rsmi.app.show import print_explanation, print_line

    for prediction in classifier.explain_iter(pending):
        if as_json:
            values = prediction.to_dict()
            typer.echo(json.dumps(values if explain else {name: values[name] for name in _BRIEF}, ensure_ascii=False))
        elif explain:
            print_explanation(prediction)
        else:
            print_line(prediction)
